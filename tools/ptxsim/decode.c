/* SPDX-License-Identifier: Apache-2.0 */
/* Translates an opcode with its modifiers and operands to the function that executes it. */
#include "tools/ptxsim/decode.h"

#include "tools/ptxsim/lanes.h"

#include <string.h>

static const struct {
	const char *opcode;
	DecodeFn *decode;
} families[] = {
	{"mov", decode_mov},
	{"cvt", decode_cvt},
	{"setp", decode_setp},
	{"set", decode_setp},
	{"selp", decode_selp},
	{"slct", decode_slct},
	{"testp", decode_testp},
	{"cvta", decode_cvta},
	{"isspacep", decode_isspacep},
	{"bra", decode_bra},
	{"brx", decode_brx},
	{"ret", decode_end},
	{"exit", decode_end},
	{"trap", decode_end},
	{"brkpt", decode_end},
	{"call", decode_call},
	{"ld", decode_ld},
	{"ldu", decode_ld},
	{"st", decode_st},
	{"bar", decode_bar},
	{"barrier", decode_bar},
	{"membar", decode_fence},
	{"fence", decode_fence},
	{"nanosleep", decode_fence},
	{"prefetch", decode_fence},
	{"prefetchu", decode_fence},
	{"griddepcontrol", decode_fence},
	{"setmaxnreg", decode_fence},
	{"shfl", decode_shfl},
	{"vote", decode_vote},
	{"activemask", decode_activemask},
	{"elect", decode_elect},
	{"match", decode_match},
	{"redux", decode_redux},
	{"ldmatrix", decode_ldmatrix},
	{"stmatrix", decode_ldmatrix},
	{"movmatrix", decode_movmatrix},
	{"mma", decode_mma},
	{"wgmma", decode_wgmma},
	{"cp", decode_cp},
	{"mbarrier", decode_mbarrier},
	{"createpolicy", decode_policy},
	{"atom", decode_atom},
	{"red", decode_atom},
};

bool take_mod(Parser *p, const char *mod)
{
	for (int i = 1; i < p->n_mods; i++)
		if (!strcmp(p->mods[i], mod)) {
			memmove(p->mods + i, p->mods + i + 1,
				(size_t)(p->n_mods - i - 1) * sizeof *p->mods);
			p->n_mods--;
			return true;
		}
	return false;
}

int take_choice(Parser *p, const char *const *choices)
{
	for (int k = 0; choices[k]; k++)
		if (take_mod(p, choices[k]))
			return k;
	return -1;
}

void drop_mods(Parser *p, const char *const *mods)
{
	for (; *mods; mods++)
		take_mod(p, *mods);
}

Type take_type(Parser *p)
{
	Type t = p->n_mods > 1 ? type_named(p->mods[p->n_mods - 1]) : T_none;

	if (!t)
		parse_fail(p, "expected a type at the end of %s", p->in->text);
	p->n_mods--;
	return t;
}

void no_mods(Parser *p)
{
	if (p->n_mods > 1)
		parse_fail(p, "%s with .%s is not supported", p->mods[0], p->mods[1]);
}

void need_operands(Parser *p, int least, int most)
{
	if (p->in->n_op < least || p->in->n_op > most)
		parse_fail(p, "%s takes %d operands, not %d", p->in->text, least, p->in->n_op);
}

/* ---- Rows of isa.def ---- */

/* Whether TEXT is one of the alternatives `a|b|c` of N characters; `isat` stands for sat. */
static bool is_one_of(const char *text, const char *set, size_t n)
{
	size_t length = strlen(text);

	for (const char *s = set; s < set + n;) {
		size_t k = strcspn(s, "|");
		if (s + k > set + n)
			k = (size_t)(set + n - s);
		if (k == length && !strncmp(s, text, k))
			return true;
		if (k == 4 && !strncmp(s, "isat", 4) && !strcmp(text, "sat"))
			return true;
		s += k + 1;
	}
	return false;
}

static bool matches(const Parser *p, const char *pattern)
{
	int i = 0;

	for (const char *s = pattern; *s;) {
		size_t n = strcspn(s, "."), used = n;
		bool optional = s[n - 1] == '?';
		n -= optional;
		if (i < p->n_mods && is_one_of(p->mods[i], s, n))
			i++;
		else if (!optional)
			return false;
		s += used + (s[used] == '.');
	}
	return i == p->n_mods;
}

static void surroundings(Parser *p, const MapRow *row)
{
	static const char *const rounds[] = {"rn", "rz", "rm", "rp"};
	bool is_int = type_kind(row->d) != 'f';

	for (int i = 1; i < p->n_mods && !is_int; i++) {
		p->in->ftz |= !strcmp(p->mods[i], "ftz");
		p->in->sat |= !strcmp(p->mods[i], "sat");
		p->in->relu |= !strcmp(p->mods[i], "relu");
		for (int r = 0; r < 4; r++)
			if (!strcmp(p->mods[i], rounds[r]))
				p->in->round = (uint8_t)r;
	}
	if (p->in->ftz || p->in->sat || p->in->relu || p->in->round)
		p->in->exec = exec_map_float;
}

static bool decode_map(Parser *p)
{
	for (int k = 0; k < n_map_rows; k++) {
		const MapRow *row = &map_rows[k];
		if (strncmp(row->pattern, p->mods[0], strlen(p->mods[0])) ||
		    !matches(p, row->pattern))
			continue;
		Inst *in = p->in;
		need_operands(p, row->n + 1, row->n + 1);
		in->exec = exec_map;
		in->map = row->fn;
		in->cls = (uint8_t)row->cls;
		in->type = (uint8_t)row->d;
		in->n_sources = row->n;
		in->d = dest_of(p, &in->op[0], row->d, false);
		for (int i = 0; i < row->n; i++) {
			in->s[i] = slot_of(p, &in->op[i + 1], row->s[i], false);
			in->source_type[i] = (uint8_t)row->s[i];
		}
		surroundings(p, row);
		return true;
	}
	return false;
}

void check_opcode(Parser *p)
{
	const char *name = p->mods[0];
	size_t n = strlen(name);

	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (!strcmp(families[i].opcode, name))
			return;
	for (int k = 0; k < n_map_rows; k++)
		if (!strncmp(map_rows[k].pattern, name, n) && map_rows[k].pattern[n] == '.')
			return;
	if (strcmp(name, "addc") && strcmp(name, "subc") && strcmp(name, "madc"))
		parse_fail(p, "the instruction %s is not supported", p->in->text);
}

void decode(Parser *p)
{
	p->in->d.none = true;
	if (decode_logic(p) || decode_carry(p) || decode_map(p))
		return;
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (!strcmp(families[i].opcode, p->mods[0])) {
			families[i].decode(p);
			return;
		}
	parse_fail(p, "the instruction %s is not supported", p->in->text);
}
