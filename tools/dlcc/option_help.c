/* SPDX-License-Identifier: Apache-2.0 */
/* The texts that dlcc and dlcc-opt print about themselves. */
#include "base/program.h"
#include "codegen/package/package.h"
#include "codegen/targets.h"
#include "tools/dlcc/option.h"

#include <string.h>

static ProgramBit asked; /* the program that answers */

/* ---- --help ---- */

static const char dlcc_usage[] =
	"usage: dlcc [options] MODEL -o FILE\n"
	"       dlcc [options] MODEL --explain\n"
	"       dlcc --check MODEL.onnx\n"
	"\n"
	"MODEL is MODEL.onnx, or MODEL.dl, the graph as text.\n"
	"FILE's suffix says what is made: .so .a .o .c (with a header beside it), .ptx, .dl (the graph as text),\n"
	".onnx (the graph as the passes up to quantise make it), .schedule (by --tune)\n";

static const char opt_usage[] = "usage: dlcc-opt [options] FILE.dl | FILE.onnx\n";

void help_targets(StrBuf *b)
{
	strbuf_puts(b, "\ncpu: with native, ");
	target_names(b, false);
	strbuf_puts(b, " (or v4, v3 and so on)\ncuda: with ");
	target_names(b, true);
}

void help_cache_size(StrBuf *b)
{
	strbuf_printf(b, " (default %d)", PACKAGE_CACHE_MIB);
}

void help_warnings(StrBuf *b)
{
	strbuf_puts(b, " ");
	warnings_names(b);
	strbuf_puts(
		b,
		"\n(unbounded, off unless named: memory whose size depends on data; dims of inputs do not count;\n"
		"attribute: one that an operator does not have is an error, -Wno-error=attribute ignores it)");
}

/* The lines of O: its name and value, and in another column their meaning. */
static void print_option(const Option *o)
{
	enum { COLUMN = 26 };
	StrBuf name = {0}, help = {0};
	const char *text;

	strbuf_printf(&name, "  %s%s", o->name, o->value ? o->value : "");
	strbuf_puts(&help, o->help);
	if (o->more)
		o->more(&help);
	text = strbuf_str(&help);
	printf("%-*s ", COLUMN - 1, strbuf_str(&name));
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		printf("%*s%.*s\n", text == strbuf_str(&help) ? 0 : COLUMN, "", (int)n, text);
	}
	strbuf_free(&name);
	strbuf_free(&help);
}

void answer_help(void)
{
	puts(asked == DLCC ? dlcc_usage : opt_usage);
	for (const Option *o = option_table; o->name; o++)
		if ((o->programs & asked) && o->help)
			print_option(o);
}

/* ---- Lists ---- */

void answer_version(void)
{
	if (asked == DLCC_OPT)
		puts("dlcc-opt " DLCC_VERSION);
	else if (!gen_nvptx_lacks())
		printf("dlcc " DLCC_VERSION ", with LLVM %s\n", gen_nvptx_llvm());
	else
		puts("dlcc " DLCC_VERSION ", without LLVM");
}

void answer_ops(void)
{
	for (int i = 1; i < OP_COUNT; i++) {
		const char *name, *domain = op_domain((OpKind)i, &name);

		if (!(op_row[i].flags & OPF_INTERNAL))
			printf("%s%s%s\n", domain, *domain ? "." : "", name);
	}
}

void answer_passes(void)
{
	passes_list(stdout);
}

void answer_targets(void)
{
	const bool gpus = !gen_nvptx_lacks();

	for (const Target *t = target_table; t->name; t++) {
		const char *older = t->gpu ? gen_nvptx_processor(t->gpu) : NULL;

		if (!t->gpu && str_starts(t->name, "x86-64-"))
			printf("cpu:%-14s or cpu:%s\n", t->name, t->name + strlen("x86-64-"));
		else if (!t->gpu)
			printf("cpu:%s\n", t->name);
		else if (gpus && older)
			printf("cuda:%-10s code of %s: LLVM %s does not know it, LLVM %d does\n",
			       t->name, older, gen_nvptx_llvm(), t->gpu->llvm);
		else if (gpus)
			printf("cuda:%s\n", t->name);
	}
}

void answer_options(void)
{
	static const char *const kinds[] = {"none",   "word",    "number", "file",
					    "folder", "program", "output", "cache"};

	for (const Option *o = option_table; o->name; o++) {
		if (!(o->programs & asked) || o->answer || o->joined)
			continue;
		if (!o->value || (*o->value == '[' && !o->alone))
			printf("%s %s\n", o->name, kinds[VALUE_NONE]);
		if (o->value)
			printf("%s %s\n", o->name, kinds[o->kind]);
	}
}

bool options_answer(ProgramBit of, int argc, char **argv)
{
	Question all[OPTIONS_ROOM + 1];
	int n = 0;

	asked = of;
	for (const Option *o = option_table; o->name; o++)
		if ((o->programs & of) && o->answer)
			all[n++] = (Question){o->name, o->answer};
	all[n] = (Question){0};
	return program_answers(argc, argv, all);
}
