/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/dlcc/options.h"

#include "base/program.h"
#include "codegen/package/package.h"
#include "tools/dlcc/option.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool usage_error(Cli *c, const char *fmt, const char *arg)
{
	diag_error(&c->diag, (DiagLoc){.file = c->program}, fmt, arg);
	diag_note(&c->diag, "%s --help lists the options", c->program);
	return false;
}

bool options_fault(Cli *c, const char *text)
{
	return usage_error(c, "%s", text);
}

bool value_error(Cli *c, const Option *o, const char *v, const char *text)
{
	StrBuf b = {0};

	strbuf_printf(&b, "%s=%s: %s", o->name, v, text);
	options_fault(c, strbuf_str(&b));
	strbuf_free(&b);
	return false;
}

/* ---- Reading ---- */

void options_begin(Cli *c, ProgramBit of, const char *program)
{
	*c = (Cli){.of = of,
		   .program = program,
		   .level = 2,
		   .rewrite_limit = -1,
		   .winograd = WINOGRAD_DEFAULT,
		   .slice = -1,
		   .tune_seconds = 60,
		   .max_error = -1,
		   .cache_size = PACKAGE_CACHE_MIB,
		   .diag = {.out = stderr}};
}

/* The option of C's program with this NAME; null: none. */
static const Option *find(const Cli *c, const char *name)
{
	for (const Option *o = option_table; o->name; o++)
		if ((o->programs & c->of) && !strcmp(o->name, name))
			return o;
	return NULL;
}

static bool give(Cli *c, const Option *o, const char *v);

/* O is an old name. What takes texts keeps V or AS itself, which live long enough; formats, which
 * AS and V are together, are read here. */
static bool give_old(Cli *c, const Option *o, const char *v)
{
	StrBuf both = {0};
	const char *value = o->as ? o->as : v;
	bool ok;

	if (o->as && v && !o->drops) {
		strbuf_printf(&both, "%s:%s", o->as, v);
		value = strbuf_str(&both);
	}
	diag_note(&c->diag, "%s%s%s is now %s=%s", o->name, v ? "=" : "", v ? v : "", o->now,
		  value ? value : "");
	ok = give(c, find(c, o->now), value);
	strbuf_free(&both);
	return ok;
}

/* O is given, with the value V; null: without one. */
static bool give(Cli *c, const Option *o, const char *v)
{
	if (v && !*v)
		return usage_error(c, "%s wants a value", o->name);
	if (o->now)
		return give_old(c, o, v);
	c->given[o - option_table] = true;
	if (o->flag)
		*(bool *)((char *)c + o->flag) = true;
	v = v ? v : o->alone;
	return !v || o->set(c, o, v);
}

/* Options of other compilers, and one whose file had another grammar; FMT is the message about
 * each. */
static const struct {
	const char *option, *fmt;
} foreign[] = {
	{"--shape", "unknown option %s; --dim NAME=N binds a symbolic dim"},
	{"--batch", "unknown option %s; --dim NAME=N binds a symbolic dim"},
	{"--input-shape", "unknown option %s; --dim NAME=N binds a symbolic dim"},
	{"--tiles", "%s is gone; --schedule=FILE takes decisions as --dump-ir=decide prints them"},
};

/* The option of C's program whose name WORD may have been meant for; null: none. */
static const Option *nearest(const Cli *c, const char *word)
{
	const Option *found = NULL;
	size_t edits = SIZE_MAX;

	for (const Option *o = option_table; o->name; o++)
		if ((o->programs & c->of) && !o->now && str_is_near(word, o->name, &edits))
			found = o;
	return found;
}

static bool unknown_option(Cli *c, const char *a)
{
	const size_t n = strcspn(a, "=");
	STRBUF_LOCAL(word);
	const Option *near;

	for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
		if (strlen(foreign[i].option) == n && !strncmp(a, foreign[i].option, n))
			return usage_error(c, foreign[i].fmt, a);
	if (!access(a, F_OK))
		return usage_error(
			c, "unknown option %s; for the file of that name put ./ before it", a);
	strbuf_put(&word, a, n);
	near = nearest(c, strbuf_str(&word));
	strbuf_puts(&word, a + n);
	if (near)
		strbuf_printf(&word, "; the nearest is %s", near->name);
	return usage_error(c, "unknown option %s", strbuf_str(&word));
}

bool options_argument(Cli *c, char **argv, int *i)
{
	const char *a = argv[*i];

	if (a[0] != '-') {
		if (c->input)
			return usage_error(c, "%s: one model at a time", a);
		c->input = a;
		return true;
	}
	for (const Option *o = option_table; o->name; o++) {
		const size_t n = strlen(o->name);

		if (!(o->programs & c->of) || o->answer || strncmp(a, o->name, n) != 0)
			continue;
		if (o->joined)
			return give(c, o, a);
		if (a[n] == '=' && o->value)
			return give(c, o, a + n + 1);
		if (a[n])
			continue;
		if (!o->value || *o->value == '[')
			return give(c, o, NULL);
		if (!argv[*i + 1])
			return usage_error(c, "%s wants a value", a);
		return give(c, o, argv[++*i]);
	}
	return unknown_option(c, a);
}

/* ---- What is given fits together ---- */

/* The suffixes of the outputs BITS, with spaces before them. */
static void put_suffixes(StrBuf *b, unsigned bits)
{
	for (const OutputSuffix *s = output_suffixes; s->suffix; s++)
		if (s->bit & bits)
			strbuf_printf(b, " %s", s->suffix);
}

static bool has_suffix(const Cli *c, const char *suffix)
{
	const char *dot = c->output ? strrchr(c->output, '.') : NULL;

	return dot && !strcmp(dot, suffix);
}

bool output_is_model(const Cli *c)
{
	return has_suffix(c, ".dl") || has_suffix(c, ".onnx");
}

/* The header that is written beside PATH has the name of the one that it includes. */
static bool has_runtimes_header(const char *path)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

	return !strncmp(base, "dlrt.", 5) && strcmp(base, "dlrt.ptx") && strcmp(base, "dlrt.dl");
}

/* Sets OUT. False after a diagnostic. */
static bool find_output(Cli *c, OutputBit *out)
{
	StrBuf b = {0};
	bool reports = false;

	*out = OUT_NONE;
	for (const Option *o = option_table; o->name; o++)
		reports = reports || (o->reports && c->given[o - option_table]);
	if (!c->output && reports)
		return true;
	if (c->output && has_runtimes_header(c->output))
		return usage_error(
			c,
			"-o %s: its header would be dlrt.h, which is the runtime's; give another name",
			c->output);
	for (const OutputSuffix *s = output_suffixes; s->suffix; s++)
		if (has_suffix(c, s->suffix)) {
			*out = s->bit;
			return true;
		}
	put_suffixes(&b, ~0u);
	diag_error(&c->diag, (DiagLoc){.file = c->program}, "%s%s; the suffix says what is made:%s",
		   c->output ? "cannot make " : "no output: give -o FILE",
		   c->output ? c->output : "", strbuf_str(&b));
	strbuf_free(&b);
	return false;
}

/* O, which is given, has no effect on the output. False, after a diagnostic. */
static bool no_effect(Cli *c, const Option *o, OutputBit out)
{
	StrBuf b = {0};

	if (out != OUT_NONE)
		strbuf_printf(&b, "%s changes nothing in %s; it is for", o->name, c->output);
	else
		strbuf_printf(&b, "%s wants an output%s:", o->name,
			      c->check ? ", which --check does not make" : "");
	put_suffixes(&b, o->outputs);
	options_fault(c, strbuf_str(&b));
	strbuf_free(&b);
	return false;
}

/* An option, or a suffix of the output, is given. */
static bool is_given(const Cli *c, const char *what)
{
	const Option *o = *what == '.' ? NULL : find(c, what);

	return o ? c->given[o - option_table] : has_suffix(c, what);
}

static bool relations_hold(Cli *c)
{
	for (const OptionRelation *r = option_relations; r->of; r++) {
		bool any = false;

		for (int i = 0; i < (int)(sizeof r->others / sizeof *r->others) && r->others[i];
		     i++)
			any = any || is_given(c, r->others[i]);
		if (is_given(c, r->of) && any == r->excludes)
			return options_fault(c, r->text);
	}
	return true;
}

/* Checks that every option given to dlcc has an effect. */
static bool has_effect(Cli *c)
{
	const bool text = str_ends(c->input, ".dl");
	const Pass *pass = c->dump ? pass_by_name(c->dump) : NULL;
	OutputBit out;

	if (!find_output(c, &out) || !relations_hold(c))
		return false;
	for (const Option *o = option_table; o->name; o++) {
		if (!c->given[o - option_table])
			continue;
		if (o->onnx && text)
			return usage_error(c, "%s wants an ONNX model", o->name);
		if (o->outputs && !(o->outputs & out))
			return no_effect(c, o, out);
	}
	if (c->dump_node && pass && pass->prints->whole)
		return usage_error(c, "--dump-node: %s is of all nodes together", c->dump);
	return true;
}

bool options_read(Cli *c, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!options_argument(c, argv, &i))
			return false;
	if (!c->input)
		return options_fault(c, "no model");
	c->diag.file = c->input;
	warnings_rules(&c->warnings, c->rules);
	c->diag.rules = c->rules;
	c->dump_all = c->dump_all && !c->dump;
	return c->of != DLCC || has_effect(c);
}

const char *options_for_gpus(const Cli *c)
{
	for (const Option *o = option_table; o->name; o++)
		if (o->gpu && c->given[o - option_table])
			return o->name;
	return c->half_activations == DT_F16 ? "--activations-as=f16" : NULL;
}

bool dump_of_gpu(const char *v)
{
	return v && (!strcmp(v, "nvptx") || !strcmp(v, "count"));
}

const char *options_early(const Cli *c)
{
	for (const Option *o = option_table; o->name; o++)
		if (o->early && c->given[o - option_table])
			return o->name;
	return NULL;
}

Options options_of_passes(const Cli *c)
{
	return (Options){.level = c->level,
			 .rewrite_limit = c->rewrite_limit,
			 .shuffle = c->shuffle,
			 .tf32 = c->tf32,
			 .winograd = c->winograd,
			 .slice = c->slice,
			 .flush = c->flush,
			 .weight_type = c->weight_type,
			 .weight_group = c->weight_group,
			 .weight_error = c->int8 || c->calibrate ? -1 : c->max_error,
			 .weight_keep = c->keep,
			 .nweight_keep = c->int8 ? 0 : c->nkeep,
			 .caches = c->caches,
			 .int8_activations = c->int8_activations,
			 .half_activations = c->half_activations,
			 .bf16_activations = c->half_activations == DT_BF16,
			 .verify = c->verify,
			 .warn_floats = warnings_named(&c->warnings, "fallback")};
}

/* ---- Folders ---- */

static bool is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* The folder that file PATH (null: none) is to be in is there. */
static bool folder_of_is_there(Cli *c, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	StrBuf folder = {0};
	bool ok;

	if (!slash)
		return true;
	strbuf_put(&folder, path, slash > path ? (size_t)(slash - path) : 1);
	ok = is_folder(strbuf_str(&folder)) ||
	     diag_error(&c->diag, (DiagLoc){.file = path}, "there is no folder %s",
			strbuf_str(&folder));
	strbuf_free(&folder);
	return ok;
}

bool options_folders(Cli *c)
{
	if (c->sysroot && !is_folder(c->sysroot))
		return diag_error(&c->diag, (DiagLoc){.file = "dlcc"},
				  "--sysroot=%s: there is no such folder", c->sysroot);
	return folder_of_is_there(c, c->output) && folder_of_is_there(c, c->weights) &&
	       folder_of_is_there(c, c->depfile);
}
