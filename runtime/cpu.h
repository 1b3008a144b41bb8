/* SPDX-License-Identifier: Apache-2.0 */
/* The features of this machine's CPU. The runtime chooses a model's variant by them, and the
 * compiler what --target=native means. */
#ifndef RUNTIME_CPU_H
#define RUNTIME_CPU_H

#include "runtime/dlrt.h"

/* The DL_CPU_ bits among OF that this CPU has. If OF has matrix registers, asks the system for the
 * permission to use them. It holds for the whole process, whose threads then cannot have stacks
 * for signals that are too small to save these registers. */
uint64_t rt_cpu_features(uint64_t of);

#endif
