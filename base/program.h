/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the command lines of all programs. */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <stdbool.h>

#ifndef DLCC_VERSION
#define DLCC_VERSION "0"
#endif

enum { EXIT_USAGE = 2 };

/* The stack that programs work on, whatever `ulimit -s` says, and that of the threads and, where
 * the limit may be raised, of the commands that they start. */
enum { PROGRAM_STACK_MIB = 64, THREAD_STACK_MIB = 8 };

/* Returns WORK(ARGC, ARGV), run on a thread with a stack of PROGRAM_STACK_MIB, which gets all
 * signals; 1 after a message where there is no memory for it. A file that is too large
 * (ulimit -f) is an error of write. */
int program_run(const char *program, int (*work)(int argc, char **argv), int argc, char **argv);

/* An option such as --version, which prints something about the program instead of doing its
 * work. */
typedef struct Question {
	const char *option;
	void (*answer)(void);
} Question;

/* Handles the first argument that is one of ALL, which ends with a null option; -h is --help.
 * False if there is none. */
bool program_answers(int argc, char **argv, const Question *all);

/* Writes out what was printed on the standard output. False where that failed, now or before;
 * program_end says so. */
bool program_flush(void);

/* The status that PROGRAM ends with: STATUS, or, where that is 0 and the standard output could
 * not be written, 1 after a message that says why. */
int program_end(const char *program, int status);

enum { NUMBER_MAX = 1 << 20 }; /* more threads, or rewrites of a model, than there are */
/* Reads TEXT, the value of an option: a number from 0 to NUMBER_MAX. False if it is not such a
 * number. */
bool program_number(const char *text, int *number);

#define OPT_LEVELS "the levels are -O0, -O1, -O2 and -O3"
/* Reads ARG, which begins with -O. *LEVEL is the level, or -1 if it is not valid. */
bool program_level(const char *arg, int *level);

#endif
