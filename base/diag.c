/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"

#include "base/str.h"

#include <string.h>

enum { DEFAULT_LIMIT = 20 };

static int limit_of(const Diag *d)
{
	return d->limit ? d->limit : DEFAULT_LIMIT;
}

static bool printing(const Diag *d)
{
	return d->out && d->errors <= limit_of(d);
}

/* Prints TEXT with everything but the colours escaped. A message contains names from a model,
 * which must not end the line or reach a terminal as control sequences. */
static void put(const Diag *d, const char *text)
{
	escape_to_file(d->out, text, escape_terminal);
}

static void put_message(const Diag *d, const char *fmt, va_list ap)
{
	StrBuf b = {0};

	strbuf_vprintf(&b, fmt, ap);
	put(d, strbuf_str(&b));
	fputc('\n', d->out);
	strbuf_free(&b);
}

static void print(Diag *d, DiagLoc loc, const char *level, const char *colour, const char *fmt,
		  va_list ap)
{
	fputs(d->colour ? "\033[1m" : "", d->out);
	put(d, loc.file ? loc.file : d->file ? d->file : "dlcc");
	if (loc.line)
		fprintf(d->out, ":%d", loc.line);
	if (d->colour)
		fprintf(d->out, ": %s%s:\033[0m ", colour, level);
	else
		fprintf(d->out, ": %s: ", level);
	if (loc.node) {
		fputs(loc.op ? "node \"" : "\"", d->out);
		put(d, loc.node);
		fputs("\"", d->out);
	}
	if (loc.node && loc.op) {
		fputs(" (", d->out);
		put(d, loc.op);
		fputs(")", d->out);
	}
	fputs(loc.node ? ": " : "", d->out);
	put_message(d, fmt, ap);
}

static void give(Diag *d, DiagLoc loc, const char *fmt, va_list ap)
{
	char text[2048];

	vsnprintf(text, sizeof text, fmt, ap);
	d->sink(d->sink_arg, loc, text);
}

bool diag_error(Diag *d, DiagLoc loc, const char *fmt, ...)
{
	va_list ap;

	d->errors++;
	va_start(ap, fmt);
	if (d->sink)
		give(d, loc, fmt, ap);
	else if (printing(d))
		print(d, loc, "error", "\033[31m", fmt, ap);
	va_end(ap);
	return false;
}

static bool listed(const char *const *names, const char *name)
{
	for (int i = 0; i < 16 && names[i]; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

bool diag_warning(Diag *d, DiagLoc loc, const char *name, const char *fmt, ...)
{
	va_list ap;
	bool named = listed(d->werror, name),
	     silent = listed(d->wno, name) || listed(d->wno, "all");
	bool error = named || (listed(d->werror, "all") && !listed(d->wno, name));

	if (silent && !error)
		return true;
	if (error)
		d->errors++;
	else
		d->warnings++;
	va_start(ap, fmt);
	if (error && d->sink)
		give(d, loc, fmt, ap);
	else if (printing(d))
		print(d, loc, error ? "error" : "warning", error ? "\033[31m" : "\033[35m", fmt,
		      ap);
	va_end(ap);
	return !error;
}

void diag_end(Diag *d)
{
	if (d->out && !d->sink && d->errors > limit_of(d))
		fprintf(d->out, "%d errors; the first %d are above\n", d->errors, limit_of(d));
}

void diag_note(Diag *d, const char *fmt, ...)
{
	va_list ap;

	if (!printing(d) || d->sink)
		return;
	fputs("  note: ", d->out);
	va_start(ap, fmt);
	put_message(d, fmt, ap);
	va_end(ap);
}
