/* SPDX-License-Identifier: Apache-2.0 */
/* A model of the server: what backend.c runs and model.c opens. */
#ifndef SERVING_TRITON_BACKEND_H
#define SERVING_TRITON_BACKEND_H

#include "runtime/dlrt.h"
#include "serving/triton/server.h"

#include <pthread.h>

enum { MOST_DEVICES = 64 };

/* A library that dlcc made, opened, and its model on each device that an instance has asked for: [0] is the CPU. */
typedef struct Served {
	const dl_api *api;
	const dl_desc *desc;
	int32_t n_in, n_io; /* its inputs; inputs and outputs */
	int32_t threads;    /* dl_load_options.threads */
	bool batched; /* the first dim of each input and output is the same symbol, along which elements are independent */
	bool has_strings; /* inputs or outputs of strings */
	int64_t most; /* the server's max_batch_size */
	void *library;
	int file; /* of the library; stays open, as its number is part of the name that the library is loaded by */
	dl_model *model[1 + MOST_DEVICES];
	pthread_mutex_t lock;
} Served;

/* An error with this text, as printf has it. */
Error *error_of(ErrorCode code, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define INVALID(...) error_of(ERROR_INVALID, __VA_ARGS__)
#define NO_MEMORY(what) error_of(ERROR_UNAVAILABLE, "no memory for %s", what)

/* Returns from the function if EXPRESSION is an error. */
#define TRY(expression)                       \
	do {                                  \
		Error *error_ = (expression); \
		if (error_)                   \
			return error_;        \
	} while (0)

/* The server's type for elements of type T; its bytes are 0 if it has none. */
typedef struct ServerType {
	DataType type;
	uint32_t bytes;
	const char *name;
} ServerType;
ServerType server_type(int32_t t);

/* Input or output I of S; the outputs are behind the inputs. */
static inline const dl_io *io_of(const Served *s, int32_t i)
{
	return i < s->n_in ? dl_desc_in(s->desc, i) : dl_desc_out(s->desc, i - s->n_in);
}

/* Opens the library of MODEL as S, which is zero, and completes or checks the model's configuration. After a failure, too, S is to be closed. */
Error *served_open(ServerModel *model, Served *s);
void served_close(Served *s);
/* S on DEVICE, a GPU's number, or -1 for the CPU. */
Error *served_on(Served *s, int32_t device, dl_model **model);

#endif
