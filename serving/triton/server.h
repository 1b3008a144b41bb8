/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of Triton Inference Server's backend API, version 1.19, that the backend calls or defines. They are
 * declared here because the server's own header is not valid C. The server is found by the dynamic linker when it
 * loads the backend. Each function that returns a TRITONSERVER_Error returns null on success.
 */
#ifndef SERVING_TRITON_SERVER_H
#define SERVING_TRITON_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off: one declaration has the functions of the same parameters */
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

/* The numbers of TRITONSERVER_Error_Code, _DataType, _MemoryType, _LogLevel, _InstanceGroupKind and the flags. */
typedef enum { ERROR_INTERNAL = 1, ERROR_INVALID = 3, ERROR_UNAVAILABLE, ERROR_UNSUPPORTED, ERROR_CANCELLED = 7 } ErrorCode;
typedef enum { TYPE_INVALID, TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32,
	       TYPE_INT64, TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_BYTES, TYPE_BF16 } DataType;
typedef enum { MEMORY_CPU, MEMORY_CPU_PINNED, MEMORY_GPU } MemoryType;
typedef enum { LOG_INFO, LOG_WARNING, LOG_ERROR } LogLevel;
enum { GROUP_GPU = 2, RELEASE_ALL = 1, RESPONSE_FINAL = 1 };

/* ---- What the server defines ---- */

Error *TRITONSERVER_ErrorNew(ErrorCode code, const char *text);
void TRITONSERVER_ErrorDelete(Error *error);
const char *TRITONSERVER_ErrorMessage(Error *error);
Error *TRITONSERVER_LogMessage(LogLevel level, const char *file, int line, const char *text);
Error *TRITONSERVER_MessageNewFromSerializedJson(Message **message, const char *json, size_t bytes);
Error *TRITONSERVER_MessageSerializeToJson(Message *message, const char **json, size_t *bytes);
Error *TRITONSERVER_MessageDelete(Message *message);
Error *TRITONSERVER_BufferAttributesNew(Memory **memory), *TRITONSERVER_BufferAttributesDelete(Memory *memory);
Error *TRITONSERVER_BufferAttributesSetMemoryType(Memory *memory, MemoryType type);
Error *TRITONSERVER_BufferAttributesSetMemoryTypeId(Memory *memory, int64_t device);
Error *TRITONSERVER_BufferAttributesSetByteSize(Memory *memory, size_t bytes);

Error *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor);
Error *TRITONBACKEND_ModelVersion(ServerModel *model, uint64_t *version);
Error *TRITONBACKEND_ModelRepository(ServerModel *model, int *kind, const char **path);
Error *TRITONBACKEND_ModelConfig(ServerModel *model, uint32_t version, Message **config);
Error *TRITONBACKEND_ModelAutoCompleteConfig(ServerModel *model, bool *complete);
Error *TRITONBACKEND_ModelSetConfig(ServerModel *model, uint32_t version, Message *config);
Error *TRITONBACKEND_ModelState(ServerModel *model, void **state), *TRITONBACKEND_ModelSetState(ServerModel *model, void *state);
Error *TRITONBACKEND_ModelReportMemoryUsage(ServerModel *model, Memory **usage, uint32_t n);
Error *TRITONBACKEND_ModelInstanceModel(ServerInstance *instance, ServerModel **model);
Error *TRITONBACKEND_ModelInstanceKind(ServerInstance *instance, int *kind);
Error *TRITONBACKEND_ModelInstanceDeviceId(ServerInstance *instance, int32_t *device);
Error *TRITONBACKEND_ModelInstanceState(ServerInstance *instance, void **state);
Error *TRITONBACKEND_ModelInstanceSetState(ServerInstance *instance, void *state);
Error *TRITONBACKEND_ModelInstanceReportMemoryUsage(ServerInstance *instance, Memory **usage, uint32_t n);
Error *TRITONBACKEND_ModelInstanceReportStatistics(ServerInstance *instance, Request *request, bool success, uint64_t begin,
						   uint64_t compute_begin, uint64_t compute_end, uint64_t end);
Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(ServerInstance *instance, uint64_t size, uint64_t begin,
							uint64_t compute_begin, uint64_t compute_end, uint64_t end);
Error *TRITONBACKEND_RequestInput(Request *request, const char *name, Input **input);
Error *TRITONBACKEND_RequestOutputCount(Request *request, uint32_t *count);
Error *TRITONBACKEND_RequestOutputName(Request *request, uint32_t i, const char **name);
Error *TRITONBACKEND_RequestIsCancelled(Request *request, bool *cancelled);
Error *TRITONBACKEND_RequestRelease(Request *request, uint32_t flags);
Error *TRITONBACKEND_InputProperties(Input *input, const char **name, DataType *type, const int64_t **shape, uint32_t *rank,
				     uint64_t *bytes, uint32_t *buffers);
Error *TRITONBACKEND_InputBuffer(Input *input, uint32_t i, const void **data, uint64_t *bytes, MemoryType *type, int64_t *device);
Error *TRITONBACKEND_ResponseNew(Response **response, Request *request), *TRITONBACKEND_ResponseDelete(Response *response);
Error *TRITONBACKEND_ResponseOutput(Response *response, Output **output, const char *name, DataType type, const int64_t *shape, uint32_t rank);
Error *TRITONBACKEND_OutputBuffer(Output *output, void **data, uint64_t bytes, MemoryType *type, int64_t *device);
Error *TRITONBACKEND_ResponseSend(Response *response, uint32_t flags, Error *error);

/* ---- What the backend defines ---- */

#pragma GCC visibility push(default)
Error *TRITONBACKEND_Initialize(Backend *backend);
Error *TRITONBACKEND_ModelInitialize(ServerModel *model), *TRITONBACKEND_ModelFinalize(ServerModel *model);
Error *TRITONBACKEND_ModelInstanceInitialize(ServerInstance *instance), *TRITONBACKEND_ModelInstanceFinalize(ServerInstance *instance);
Error *TRITONBACKEND_ModelInstanceExecute(ServerInstance *instance, Request **requests, uint32_t count);
#pragma GCC visibility pop

#endif
