/* SPDX-License-Identifier: Apache-2.0 */
/* Progress in one line of a terminal, as compiling and measuring can take minutes. */
#include "base/escape.h"
#include "base/str.h"
#include "tools/dlcc/options.h"

#include <stdio.h>
#include <unistd.h>

void show_progress(const Cli *c, const char *format, ...)
{
	va_list list;

	if (!isatty(2) || c->verbose || c->diag.json)
		return;
	fputs("\r\033[K", stderr);
	if (!format)
		return;
	escape_to_file(stderr, c->input, escape_terminal);
	fputs(": ", stderr);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fflush(stderr);
}
