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
	if (loc.column)
		fprintf(d->out, ":%d", loc.column);
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

static DiagLevel level_of(const Diag *d, const char *name, DiagLevel otherwise)
{
	for (const DiagRule *r = d->rules; r && r->name; r++)
		if (!strcmp(r->name, name))
			return r->level;
	return otherwise;
}

/* Reports a fault of LEVEL; false if it is an error. */
static bool report(Diag *d, DiagLoc loc, DiagLevel level, const char *fmt, va_list ap)
{
	const bool error = level == DIAG_ERROR;

	if (level == DIAG_SILENT)
		return true;
	if (error)
		d->errors++;
	else
		d->warnings++;
	if (error && d->sink)
		give(d, loc, fmt, ap);
	else if (printing(d))
		print(d, loc, error ? "error" : "warning", error ? "\033[31m" : "\033[35m", fmt,
		      ap);
	return !error;
}

bool diag_error(Diag *d, DiagLoc loc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report(d, loc, DIAG_ERROR, fmt, ap);
	va_end(ap);
	return false;
}

bool diag_warning(Diag *d, DiagLoc loc, const char *name, const char *fmt, ...)
{
	va_list ap;
	bool ok;

	va_start(ap, fmt);
	ok = report(d, loc, level_of(d, name, DIAG_WARNING), fmt, ap);
	va_end(ap);
	return ok;
}

bool diag_named_error(Diag *d, DiagLoc loc, const char *name, const char *fmt, ...)
{
	va_list ap;
	bool ok;

	va_start(ap, fmt);
	ok = report(d, loc, level_of(d, name, DIAG_ERROR), fmt, ap);
	va_end(ap);
	return ok;
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
