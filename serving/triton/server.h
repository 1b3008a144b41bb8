/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of Triton Inference Server's backend API, version 1.19, that the backend calls or
 * defines. They are declared here because the server's own header is not valid C. The server is
 * found by the dynamic linker when it loads the backend. Each function returns null on success.
 */
#ifndef SERVING_TRITON_SERVER_H
#define SERVING_TRITON_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
enum { API_MAJOR = 1, API_MINOR = 19 };

typedef struct TRITONSERVER_Error Error;
typedef struct TRITONSERVER_Message Message;
typedef struct TRITONSERVER_BufferAttributes Memory;
typedef struct TRITONBACKEND_Backend Backend;
typedef struct TRITONBACKEND_Model ServerModel;
typedef struct TRITONBACKEND_ModelInstance ServerInstance;
typedef struct TRITONBACKEND_Request Request;
typedef struct TRITONBACKEND_Input Input;
typedef struct TRITONBACKEND_Output Output;
typedef struct TRITONBACKEND_Response Response;
/* The backend's states of a model and of an instance, which the server keeps. */
typedef struct Served Served;
typedef struct Instance Instance;

/* The numbers of TRITONSERVER_Error_Code, _DataType, _MemoryType, _LogLevel, and of the flags. */
typedef enum { ERROR_INTERNAL = 1, ERROR_INVALID = 3, ERROR_UNAVAILABLE, ERROR_UNSUPPORTED, ERROR_CANCELLED = 7 } ErrorCode;
typedef enum { TYPE_INVALID, TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16,
	       TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_BYTES, TYPE_BF16 } DataType;
typedef enum { MEMORY_CPU, MEMORY_CPU_PINNED, MEMORY_GPU } MemoryType;
typedef enum { LOG_INFO, LOG_WARNING, LOG_ERROR } LogLevel;
enum { GROUP_GPU = 2, RELEASE_ALL = 1, RESPONSE_FINAL = 1 };

#define SERVER(name, ...) Error *TRITONSERVER_##name(__VA_ARGS__)
#define BACKEND(name, ...) Error *TRITONBACKEND_##name(__VA_ARGS__)

/* Functions of the server. */
const char *TRITONSERVER_DataTypeString(DataType type);
uint32_t TRITONSERVER_DataTypeByteSize(DataType type); /* 0: of strings */
const char *TRITONSERVER_ErrorMessage(Error *error);
void TRITONSERVER_ErrorDelete(Error *error);
SERVER(ErrorNew, ErrorCode code, const char *text);
SERVER(LogMessage, LogLevel level, const char *file, int line, const char *text);
SERVER(MessageNewFromSerializedJson, Message **message, const char *json, size_t bytes);
SERVER(MessageSerializeToJson, Message *message, const char **json, size_t *bytes);
SERVER(MessageDelete, Message *message);
SERVER(BufferAttributesNew, Memory **memory);
SERVER(BufferAttributesDelete, Memory *memory);
SERVER(BufferAttributesSetMemoryType, Memory *memory, MemoryType type);
SERVER(BufferAttributesSetMemoryTypeId, Memory *memory, int64_t device);
SERVER(BufferAttributesSetByteSize, Memory *memory, size_t bytes);
BACKEND(ApiVersion, uint32_t *major, uint32_t *minor);
BACKEND(ModelVersion, ServerModel *model, uint64_t *version);
BACKEND(ModelRepository, ServerModel *model, int *kind, const char **path);
BACKEND(ModelConfig, ServerModel *model, uint32_t version, Message **config);
BACKEND(ModelAutoCompleteConfig, ServerModel *model, bool *complete);
BACKEND(ModelSetConfig, ServerModel *model, uint32_t version, Message *config);
BACKEND(ModelState, ServerModel *model, Served **state);
BACKEND(ModelSetState, ServerModel *model, Served *state);
BACKEND(ModelReportMemoryUsage, ServerModel *model, Memory **usage, uint32_t n);
BACKEND(ModelInstanceModel, ServerInstance *instance, ServerModel **model);
BACKEND(ModelInstanceKind, ServerInstance *instance, int *kind);
BACKEND(ModelInstanceDeviceId, ServerInstance *instance, int32_t *device);
BACKEND(ModelInstanceState, ServerInstance *instance, Instance **state);
BACKEND(ModelInstanceSetState, ServerInstance *instance, Instance *state);
BACKEND(ModelInstanceReportMemoryUsage, ServerInstance *instance, Memory **usage, uint32_t n);
BACKEND(ModelInstanceReportStatistics, ServerInstance *instance, Request *request, bool success,
	uint64_t begin, uint64_t compute_begin, uint64_t compute_end, uint64_t end);
BACKEND(ModelInstanceReportBatchStatistics, ServerInstance *instance, uint64_t size,
	uint64_t begin, uint64_t compute_begin, uint64_t compute_end, uint64_t end);
BACKEND(RequestInput, Request *request, const char *name, Input **input);
BACKEND(RequestOutputCount, Request *request, uint32_t *count);
BACKEND(RequestOutputName, Request *request, uint32_t i, const char **name);
BACKEND(RequestIsCancelled, Request *request, bool *cancelled);
BACKEND(RequestRelease, Request *request, uint32_t flags);
BACKEND(InputProperties, Input *input, const char **name, DataType *type, const int64_t **shape,
	uint32_t *rank, uint64_t *bytes, uint32_t *buffers);
BACKEND(InputBuffer, Input *input, uint32_t i, const void **data, uint64_t *bytes,
	MemoryType *type, int64_t *device);
BACKEND(ResponseNew, Response **response, Request *request);
BACKEND(ResponseOutput, Response *response, Output **output, const char *name, DataType type,
	const int64_t *shape, uint32_t rank);
BACKEND(OutputBuffer, Output *output, void **data, uint64_t bytes, MemoryType *type, int64_t *device);
BACKEND(ResponseSend, Response *response, uint32_t flags, Error *error);

/* Functions of the backend, which the server calls. */
#pragma GCC visibility push(default)
BACKEND(Initialize, Backend *backend);
BACKEND(ModelInitialize, ServerModel *model);
BACKEND(ModelFinalize, ServerModel *model);
BACKEND(ModelInstanceInitialize, ServerInstance *instance);
BACKEND(ModelInstanceFinalize, ServerInstance *instance);
BACKEND(ModelInstanceExecute, ServerInstance *instance, Request **requests, uint32_t count);
#pragma GCC visibility pop

#endif
