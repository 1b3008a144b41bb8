/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels for GPUs and the runtime agree on: an access has so many bytes at most, and inputs and outputs begin at a
 * multiple of that. Schedules rely on it, the runtime sees to it; both include this file, which depends on nothing.
 */
#ifndef RUNTIME_VECTOR_H
#define RUNTIME_VECTOR_H

enum { GPU_VECTOR = 16 };

#endif
