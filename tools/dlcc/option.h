/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options, and the functions that read their values. Only tools/dlcc/option*.c include
 * this. */
#ifndef TOOLS_DLCC_OPTION_H
#define TOOLS_DLCC_OPTION_H

#include "base/str.h"
#include "tools/dlcc/options.h"

/* The kind of an option's value, as --list-options prints it. */
typedef enum ValueKind {
	VALUE_NONE,
	VALUE_WORD,
	VALUE_NUMBER,
	VALUE_FILE,    /* it is read */
	VALUE_FOLDER,  /* the files in it are read */
	VALUE_PROGRAM, /* it is run */
	VALUE_OUTPUT,  /* a file or a folder that is written */
	VALUE_CACHE
} ValueKind;

/* Outputs of dlcc, as bits: by the suffix of -o, or none. */
typedef enum OutputBit {
	OUT_LIBRARY = 1, /* .so .a .o */
	OUT_C = 2,
	OUT_PTX = 4,
	OUT_DL = 8,
	OUT_ONNX = 16,
	OUT_SCHEDULE = 32,
	OUT_NONE = 64
} OutputBit;

typedef struct Option Option;
struct Option {
	const char *name;
	/* how the value follows NAME in --help: "=FILE", " FILE", "[=N]" if it is optional; null:
	 * the option has none */
	const char *value;
	const char *help;  /* may have several lines; null: --help leaves the option out */
	unsigned programs; /* bits of the programs that have it */
	ValueKind kind;
	/* reads V into the member of Cli at the offset AT; false after a diagnostic */
	bool (*set)(Cli *c, const Option *o, const char *v);
	size_t at;
	size_t flag;  /* offset in Cli of a bool that becomes true; 0: none */
	size_t count; /* of a list: offset of the number of its items, at most MOST */
	int most;
	const char *alone; /* V where the value is left out; null: SET is not called then */
	unsigned outputs;  /* bits of the outputs of dlcc that allow it; 0: all */
	bool reports;      /* it prints a report, so dlcc needs no output */
	bool gpu;          /* it needs a target that is a GPU */
	bool early;        /* only passes before `sched`, and that pass, see it */
	bool onnx;         /* the model must be an ONNX file */
	bool joined;       /* NAME is the beginning of the argument, and V all of it */
	/* NAME is an old name: of NOW=AS or NOW=AS:VALUE, or, without AS, of NOW=VALUE. DROPS: the
	 * value has no meaning now */
	const char *now, *as;
	bool drops;
	void (*answer)(void);    /* prints something about the program, which then does no work */
	void (*more)(StrBuf *b); /* appends to HELP */
};

extern const Option option_table[]; /* the last has a null name */

/* An implication or a conflict of two options of dlcc, or of an option and an output. */
typedef struct OptionRelation {
	const char *of;
	bool excludes;         /* each of OTHERS; else it needs one of them */
	const char *others[3]; /* an output's suffix, such as .schedule */
	const char *text;      /* the message */
} OptionRelation;

extern const OptionRelation option_relations[]; /* the last has a null OF */

typedef struct OutputSuffix {
	const char *suffix;
	OutputBit bit;
} OutputSuffix;

extern const OutputSuffix output_suffixes[]; /* the last has a null suffix */

/* ---- options.c ---- */

/* A diagnostic of wrong usage; FMT has one %s. False. */
bool usage_error(Cli *c, const char *fmt, const char *arg);
/* Likewise for "NAME=V: TEXT". */
bool value_error(Cli *c, const Option *o, const char *v, const char *text);

/* ---- option_value.c ---- */

/* Text; of set_once, a second value must be the same; of set_item, one more of a list. */
bool set_text(Cli *c, const Option *o, const char *v);
bool set_once(Cli *c, const Option *o, const char *v);
bool set_item(Cli *c, const Option *o, const char *v);
/* A number from 0 to NUMBER_MAX, and one of a tile's rows. */
bool set_number(Cli *c, const Option *o, const char *v);
bool set_winograd(Cli *c, const Option *o, const char *v);
bool set_error(Cli *c, const Option *o, const char *v);
bool set_dim(Cli *c, const Option *o, const char *v);
bool set_glibc(Cli *c, const Option *o, const char *v);  /* two numbers, 2.28 */
bool set_soname(Cli *c, const Option *o, const char *v); /* the name of a file, without a folder */
bool set_identifier(Cli *c, const Option *o, const char *v);
/* "yes" or "no". */
bool set_yes(Cli *c, const Option *o, const char *v);
/* Names of passes with commas between them; one, or nvptx. */
bool set_passes(Cli *c, const Option *o, const char *v);
bool set_dump(Cli *c, const Option *o, const char *v);
bool set_level(Cli *c, const Option *o, const char *v);
bool set_warning(Cli *c, const Option *o, const char *v);
/* The formats of numbers. */
bool set_weights(Cli *c, const Option *o, const char *v);
bool set_activations(Cli *c, const Option *o, const char *v);
bool set_caches(Cli *c, const Option *o, const char *v);

/* ---- option_help.c ---- */

void answer_help(void);
void answer_version(void);
void answer_ops(void);
void answer_passes(void);
void answer_targets(void);
void answer_options(void);
/* Option.more. */
void help_targets(StrBuf *b);
void help_cache_size(StrBuf *b);
void help_warnings(StrBuf *b);

#endif
