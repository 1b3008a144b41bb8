/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a model once more, with outputs in place of the inputs that dl_io.alias names. */
#ifndef TESTS_TOOLS_BATCH_IN_PLACE_H
#define TESTS_TOOLS_BATCH_IN_PLACE_H

#include "tools/dlrun/session.h"

/* S has run on IN, without sharing. Returns null, or how an output in place differs from that
 * run's, bit by bit. */
const char *in_place_differs(Session *s, const Array *in);

#endif
