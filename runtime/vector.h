/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by kernels for GPUs and the runtime: the bytes of the widest access, which inputs and
 * outputs are aligned to. Schedules rely on this, and the runtime ensures it. This file includes
 * nothing.
 */
#ifndef RUNTIME_VECTOR_H
#define RUNTIME_VECTOR_H

enum { GPU_VECTOR = 16 };

#endif
