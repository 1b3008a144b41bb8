/* SPDX-License-Identifier: Apache-2.0 */
/* The features of this machine's CPU. The runtime chooses a model's variant by them, and the
 * compiler what --target=native means. */
#ifndef RUNTIME_CPU_H
#define RUNTIME_CPU_H

#include "runtime/dlrt.h"

/* DL_CPU_ bits. */
uint64_t rt_cpu_features(void);

#endif
