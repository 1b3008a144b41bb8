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
	int32_t threads; /* dl_load_options.threads */
	bool batched; /* the first dim of each input and output is the same symbol, along which elements are independent */
	bool has_strings, has_vectors; /* inputs or outputs of strings; of less than two dims */
	int64_t most; /* the server's max_batch_size */
	int64_t bound; /* the largest batch that the model takes */
	void *library;
	int file; /* stays open as long as the library is loaded under its name in /proc */
	dl_model *model[1 + MOST_DEVICES];
	pthread_mutex_t lock;
} Served;

/* An error with this text, as printf has it. */
Error *error_of(ErrorCode code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns from the function if EXPRESSION is an error. */
#define TRY(expression)                       \
	do {                                  \
		Error *error_ = (expression); \
		if (error_)                   \
			return error_;        \
	} while (0)

/* The server's type for elements of type T; TYPE_INVALID: it has none. */
DataType server_type(int32_t t);
uint64_t type_bytes(int32_t t);

/* Opens the library of MODEL, and completes or checks the model's configuration. */
Error *served_open(ServerModel *model, Served **served);
void served_close(Served *s);
/* S on DEVICE, a GPU's number, or -1 for the CPU. */
Error *served_on(Served *s, int32_t device, dl_model **model);

#endif
