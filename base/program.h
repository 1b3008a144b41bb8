/* SPDX-License-Identifier: Apache-2.0 */
/* What the command lines of all programs share. */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <stdbool.h>

#ifndef DLCC_VERSION
#define DLCC_VERSION "0"
#endif

enum { EXIT_USAGE = 2 };

/* A question about the program itself, as --version, which it answers in place of its work. */
typedef struct Question {
	const char *option;
	void (*answer)(void);
} Question;

/* Answers the first argument that is one of ALL, which end with a null option; -h is --help. False: none is. */
bool program_answers(int argc, char **argv, const Question *all);

/* The status that PROGRAM ends with: STATUS, or, where that is 0 and the standard output could not be written, 1 after a
 * message that says why. */
int program_end(const char *program, int status);

#define OPT_LEVELS "the levels are -O0, -O1, -O2 and -O3"
/* ARG begins with -O. *LEVEL: the one that it names, or -1. */
bool program_level(const char *arg, int *level);

#endif
