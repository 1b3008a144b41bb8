/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/dlcc/warnings.h"

#include <string.h>

typedef struct Warning {
	const char *name;
	bool gpu;   /* about the GPU's code */
	bool error; /* it is an error, which -Wno-error=NAME makes a warning */
} Warning;

static const Warning warnings[] = {
	{.name = "shape"},       /* a type that a .dl declares is not the one found */
	{.name = "duplicate"},   /* two constants of one name */
	{.name = "overridable"}, /* inputs that are constants, since they have initialisers */
	{.name = "sparse"},      /* inputs that are sparse tensors in the file */
	{.name = "unbounded"},   /* memory whose size depends on data; only where it is named */
	{.name = "seed"},        /* random numbers without a seed */
	{.name = "schedule"},    /* --slice=N or a line of --schedule=FILE decides nothing */
	{.name = "cache"},       /* --cache=DIR takes no more */
	{.name = "unproved", .gpu = true}, /* a schedule that isl cannot prove (--verify) */
	/* a copy that the GPU waits for; if the option names this warning, also products of
	 * dequantised tensors in floats */
	{.name = "fallback", .gpu = true},
	{.name = "attribute", .error = true}, /* one that the operator does not have */
};

enum { N_WARNINGS = sizeof warnings / sizeof *warnings };
_Static_assert((int)N_WARNINGS < (int)WARNINGS_ROOM, "raise it");

/* The last option that names a warning: none, -WNAME, -Wno-NAME, -Werror=NAME, -Wno-error=NAME. */
typedef enum WarningOption { NOTHING, ON, OFF, ERROR, NO_ERROR } WarningOption;

void warnings_names(StrBuf *b)
{
	strbuf_puts(b, "all");
	for (int i = 0; i < N_WARNINGS; i++)
		strbuf_printf(b, ", %s", warnings[i].name);
}

static int find(const char *name)
{
	for (int i = 0; i < N_WARNINGS; i++)
		if (!strcmp(warnings[i].name, name))
			return i;
	return -1;
}

static void set_all(Warnings *w, WarningOption o)
{
	w->all_errors = o == ERROR || (w->all_errors && o != NO_ERROR);
	w->all_silent = o == OFF || (w->all_silent && o != ON);
}

bool warnings_option(Warnings *w, const char *arg, StrBuf *error)
{
	static const struct {
		const char *begin;
		WarningOption option;
	} forms[] = {{"-Wno-error=", NO_ERROR}, {"-Werror=", ERROR}, {"-Wno-", OFF}, {"-W", ON}};
	int form = 0, found;

	if (!strcmp(arg, "-Werror") || !strcmp(arg, "-Wno-error")) {
		set_all(w, strcmp(arg, "-Werror") ? NO_ERROR : ERROR);
		return true;
	}
	while (!str_starts(arg, forms[form].begin))
		form++;
	arg += strlen(forms[form].begin);
	found = find(arg);
	if (!strcmp(arg, "all")) {
		set_all(w, forms[form].option);
	} else if (found < 0) {
		strbuf_printf(error, "no warning is called \"%s\"; there are ", arg);
		warnings_names(error);
		return false;
	} else if (warnings[found].error && forms[form].option == OFF) {
		strbuf_printf(error,
			      "-Wno-%s would silence an error; -Wno-error=%s makes it a warning",
			      arg, arg);
		return false;
	} else {
		w->named[found] = (unsigned char)forms[form].option;
	}
	return true;
}

bool warnings_named(const Warnings *w, const char *name)
{
	const int option = w->named[find(name)];

	return option == ON || option == ERROR;
}

static DiagLevel level(const Warnings *w, int i)
{
	switch ((WarningOption)w->named[i]) {
	case ERROR: return DIAG_ERROR;
	case NO_ERROR: return DIAG_WARNING;
	case OFF: return DIAG_SILENT;
	default: break;
	}
	if (w->all_errors || warnings[i].error)
		return DIAG_ERROR;
	return w->all_silent && w->named[i] != ON ? DIAG_SILENT : DIAG_WARNING;
}

void warnings_rules(const Warnings *w, DiagRule to[WARNINGS_ROOM])
{
	for (int i = 0; i < N_WARNINGS; i++)
		to[i] = (DiagRule){warnings[i].name, level(w, i)};
	to[N_WARNINGS] = (DiagRule){0};
}

void warnings_quiet(DiagRule to[WARNINGS_ROOM], const DiagRule *rules, bool gpu)
{
	for (int i = 0; i <= N_WARNINGS; i++) {
		to[i] = rules[i];
		if (to[i].level == DIAG_WARNING && !(gpu && warnings[i].gpu))
			to[i].level = DIAG_SILENT;
	}
}
