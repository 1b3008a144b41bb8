/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warnings of dlcc, and the options -W. Of those that name a warning the last one counts, and
 * it comes before -Werror and -Wno-all, which are about all warnings.
 */
#ifndef TOOLS_DLCC_WARNINGS_H
#define TOOLS_DLCC_WARNINGS_H

#include "base/diag.h"
#include "base/str.h"

enum { WARNINGS_ROOM = 16 }; /* for a rule of each warning, and their end */

/* What the options say. Zeros: nothing. */
typedef struct Warnings {
	bool all_errors, all_silent;
	unsigned char named[WARNINGS_ROOM]; /* by row: what the last option says that names it */
} Warnings;

/* Understands ARG, which begins with -W. False: it is wrong, and ERROR says why. */
bool warnings_option(Warnings *w, const char *arg, StrBuf *error);
/* Whether -WNAME or -Werror=NAME is the last option that names NAME. */
bool warnings_named(const Warnings *w, const char *name);
/* What follows from the options, for Diag. */
void warnings_rules(const Warnings *w, DiagRule to[WARNINGS_ROOM]);
/* Sets TO to RULES with warnings silenced, but, if GPU, for those about a GPU's code. Errors stay. */
void warnings_quiet(DiagRule to[WARNINGS_ROOM], const DiagRule *rules, bool gpu);
/* The names, with commas between them. */
void warnings_names(StrBuf *b);

#endif
