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

/* Everything in a message but the colours is escaped. It contains names from a model, which must
 * not end the line or reach a terminal as control sequences. */

/* Puts LOC and LEVEL, as they begin a message. */
static void put_head(StrBuf *b, const Diag *d, DiagLoc loc, const char *level, const char *colour)
{
	strbuf_puts(b, d->colour ? "\033[1m" : "");
	strbuf_escape(b, loc.file ? loc.file : d->file ? d->file : "dlcc", escape_terminal);
	if (loc.line)
		strbuf_printf(b, ":%d", loc.line);
	if (loc.column)
		strbuf_printf(b, ":%d", loc.column);
	strbuf_printf(b, d->colour ? ": %s%s:\033[0m " : ": %s%s: ", d->colour ? colour : "",
		      level);
	if (loc.node) {
		strbuf_puts(b, loc.op ? "node \"" : "\"");
		strbuf_escape(b, loc.node, escape_terminal);
		strbuf_puts(b, "\"");
	}
	if (loc.node && loc.op) {
		strbuf_puts(b, " (");
		strbuf_escape(b, loc.op, escape_terminal);
		strbuf_puts(b, ")");
	}
	strbuf_puts(b, loc.node ? ": " : "");
}

static void put_json(StrBuf *b, DiagLoc loc, const char *level, const char *text,
		     const char *message)
{
	strbuf_json(b, "{", "kind", level);
	strbuf_json(b, ",", "file", loc.file);
	if (loc.line)
		strbuf_printf(b, ",\"line\":%d", loc.line);
	if (loc.column)
		strbuf_printf(b, ",\"column\":%d", loc.column);
	strbuf_json(b, ",", "node", loc.node);
	strbuf_json(b, ",", "op", loc.op);
	strbuf_json(b, ",", "text", text);
	strbuf_json(b, ",", "message", message);
	strbuf_puts(b, "}");
}

/* Prints a message whose first part is HEAD, which a message of JSON has, too. */
static void print(const Diag *d, DiagLoc loc, const char *level, StrBuf *head, const char *fmt,
		  va_list ap)
{
	StrBuf text = {0}, json = {0};

	strbuf_vprintf(&text, fmt, ap);
	strbuf_escape(head, strbuf_str(&text), escape_terminal);
	if (d->json)
		put_json(&json, loc, level, strbuf_str(&text), strbuf_str(head));
	fprintf(d->out, "%s\n", strbuf_str(d->json ? &json : head));
	strbuf_free(&json);
	strbuf_free(&text);
	strbuf_free(head);
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
	else if (printing(d)) {
		StrBuf head = {0};
		const char *kind = error ? "error" : "warning";

		put_head(&head, d, loc, kind, error ? "\033[31m" : "\033[35m");
		print(d, loc, kind, &head, fmt, ap);
	}
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
		fprintf(d->out,
			d->json ? "{\"kind\":\"end\",\"message\":\"%d errors; the first %d are above\"}\n"
				: "%d errors; the first %d are above\n",
			d->errors, limit_of(d));
}

void diag_note(Diag *d, const char *fmt, ...)
{
	StrBuf head = {0};
	va_list ap;

	if (!printing(d) || d->sink)
		return;
	strbuf_puts(&head, "  note: ");
	va_start(ap, fmt);
	print(d, (DiagLoc){0}, "note", &head, fmt, ap);
	va_end(ap);
}
