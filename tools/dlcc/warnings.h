/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warnings of dlcc, and the options -W. Among options that name a warning the last one counts;
 * it overrides -Werror and -Wno-all, which concern all warnings.
 */
#ifndef TOOLS_DLCC_WARNINGS_H
#define TOOLS_DLCC_WARNINGS_H

#include "base/diag.h"
#include "base/str.h"

enum { WARNINGS_ROOM = 16 }; /* for a rule of each warning, and their end */

/* The parsed options. All zeros: none was given. */
typedef struct Warnings {
	bool all_errors, all_silent;
	unsigned char named[WARNINGS_ROOM]; /* by row: effect of the last option that names it */
} Warnings;

/* Understands ARG, which begins with -W. False: it is wrong, and ERROR says why. */
bool warnings_option(Warnings *w, const char *arg, StrBuf *error);
/* Whether -WNAME or -Werror=NAME is the last option that names NAME. */
bool warnings_named(const Warnings *w, const char *name);
/* The resulting rules for Diag. */
void warnings_rules(const Warnings *w, DiagRule to[WARNINGS_ROOM]);
/* Sets TO to RULES with warnings silenced, except, if GPU, warnings about a GPU's code. Errors
 * remain. */
void warnings_quiet(DiagRule to[WARNINGS_ROOM], const DiagRule *rules, bool gpu);
/* The names, with commas between them. */
void warnings_names(StrBuf *b);

#endif
