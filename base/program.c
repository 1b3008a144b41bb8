/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct ProgramWork {
	int (*work)(int argc, char **argv);
	int argc, status;
	char **argv;
	sigset_t mask;
} ProgramWork;

static void *run_work(void *arg)
{
	ProgramWork *w = arg;

	pthread_sigmask(SIG_SETMASK, &w->mask, NULL);
	w->status = w->work(w->argc, w->argv);
	return NULL;
}

/* C compilers crash on a small stack. They get what their limit may be raised to. */
static void raise_stack_limit(void)
{
	const rlim_t most = (rlim_t)THREAD_STACK_MIB << 20;
	struct rlimit old, new;

	if (getrlimit(RLIMIT_STACK, &old) || old.rlim_cur >= most)
		return;
	new = (struct rlimit){most, old.rlim_max > most ? old.rlim_max : most};
	if (!setrlimit(RLIMIT_STACK, &new))
		return;
	new = (struct rlimit){old.rlim_max, old.rlim_max};
	setrlimit(RLIMIT_STACK, &new);
}

/* Makes the stacks of threads that are started without a size THREAD_STACK_MIB, and that of W's
 * thread PROGRAM_STACK_MIB. 0, or an error of errno. */
static int start_work(pthread_t *thread, ProgramWork *w)
{
	pthread_attr_t a;
	int error = pthread_attr_init(&a);

	if (error)
		return error;
	error = pthread_attr_setstacksize(&a, (size_t)THREAD_STACK_MIB << 20);
	error = error ? error : pthread_setattr_default_np(&a);
	error = error ? error : pthread_attr_setstacksize(&a, (size_t)PROGRAM_STACK_MIB << 20);
	error = error ? error : pthread_create(thread, &a, run_work, w);
	pthread_attr_destroy(&a);
	return error;
}

int program_run(const char *program, int (*work)(int argc, char **argv), int argc, char **argv)
{
	ProgramWork w = {.work = work, .argc = argc, .argv = argv};
	sigset_t all;
	pthread_t thread;
	int error;

	signal(SIGXFSZ, SIG_IGN);
	raise_stack_limit();
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &w.mask);
	error = start_work(&thread, &w);
	if (!error)
		error = pthread_join(thread, NULL);
	if (!error)
		return w.status;
	fprintf(stderr,
		"%s: error: cannot make a stack of %d MiB: %s; allow it more memory (ulimit -v)\n",
		program, PROGRAM_STACK_MIB, strerror(error));
	return 1;
}

/* More than any answer has, so that it is written at once: the error of a write before the last
 * one would have no errno. */
enum { ANSWER_BYTES = 1 << 16 };

bool program_answers(int argc, char **argv, const Question *all)
{
	static char buffer[ANSWER_BYTES];

	for (int i = 1; i < argc; i++) {
		const char *asked = strcmp(argv[i], "-h") ? argv[i] : "--help";

		for (const Question *q = all; q->option; q++)
			if (!strcmp(q->option, asked)) {
				setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
				q->answer();
				return true;
			}
	}
	return false;
}

static int flush_error; /* errno of a flush that failed */

bool program_flush(void)
{
	errno = 0;
	if (fflush(stdout))
		flush_error = errno;
	return !ferror(stdout);
}

int program_end(const char *program, int status)
{
	if (program_flush())
		return status;
	fprintf(stderr, "%s: error: the standard output cannot be written%s%s\n", program,
		flush_error ? ": " : "", flush_error ? strerror(flush_error) : "");
	return status ? status : 1;
}

bool program_number(const char *text, int *number)
{
	char *end;
	const long n = strtol(text, &end, 10);

	if (!*text || *end || n < 0 || n > NUMBER_MAX)
		return false;
	*number = (int)n;
	return true;
}

bool program_level(const char *arg, int *level)
{
	if (arg[0] != '-' || arg[1] != 'O')
		return false;
	*level = arg[2] >= '0' && arg[2] <= '3' && !arg[3] ? arg[2] - '0' : -1;
	return true;
}
