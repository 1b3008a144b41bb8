/* SPDX-License-Identifier: Apache-2.0 */
/* A model of the server, which model.c opens and backend.c runs. */
#ifndef SERVING_TRITON_BACKEND_H
#define SERVING_TRITON_BACKEND_H

#include "runtime/dlrt.h"
#include "serving/triton/server.h"

#include <pthread.h>

enum { MOST_DEVICES = 64, MOST_RANK = 16 };

/* A library that dlcc made, and its model on each device that an instance asks for: [0] is the
 * CPU. */
struct Served {
	const dl_api *api;
	const dl_desc *desc;
	int32_t n_in, n_io; /* its inputs; inputs and outputs */
	int32_t threads;    /* dl_load_options.threads */
	int32_t batch; /* the symbol of each tensor's first dim, if the server batches; or -1 */
	int32_t most;  /* the server's max_batch_size */
	bool joins;    /* the requests of a batch can be computed in one run */
	bool strings;  /* a tensor is of strings */
	bool numbers;  /* a tensor has fewer than two dims: a configuration has such only by a reshape */
	void *library;
	Message *config; /* the server's */
	dl_model *model[1 + MOST_DEVICES];
	pthread_mutex_t lock;
};

/* An error of the kind KIND, ERROR_KIND, with a text as printf has it. */
#define FAIL(kind, ...) error_of(ERROR_##kind, __VA_ARGS__)
Error *error_of(ErrorCode code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns from the function if EXPRESSION is an error. */
#define TRY(expression) for (Error *error_ = (expression); error_;) return error_

/* The server's type for elements of type T; TYPE_INVALID: it has none. */
DataType server_type(int32_t t);

/* Input or output I of S; the outputs are behind the inputs. */
static inline const dl_io *io_of(const Served *s, int32_t i)
{
	return i < s->n_in ? dl_desc_in(s->desc, i) : dl_desc_out(s->desc, i - s->n_in);
}

/* Opens the library of MODEL as S, which is zero, and completes or checks the model's
 * configuration. After a failure, too, S is to be closed. */
Error *served_open(ServerModel *model, Served *s);
void served_close(Served *s);
/* Loads S->model[1 + DEVICE]: DEVICE is a GPU's number, or -1 for the CPU. Sets *WORKSPACE to the
 * bytes on DEVICE of a context for the largest batch; 0: a dim has no bound. */
Error *served_on(Served *s, int32_t device, uint64_t *workspace);
/* dl_load_options.log: the server's log. */
void log_text(void *user, int32_t level, const char *text);

#endif
