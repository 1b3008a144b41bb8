/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
