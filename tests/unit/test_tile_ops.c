/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on tiles (ir/loop/loop.h, TileNode): an attention written by hand is read, printed
 * alike, verified, and gives what eval gives, at sizes around its tiles. Each fault that is put
 * into its text is reported by the reader, the verifier or the interpreter.
 */
#include "ir/eval/eval.h"
#include "ir/eval/eval_tiles.h"

#include <stdio.h>
#include <stdlib.h>

static int failed;

static const char kernel_text[] =
	"kernel @a(%q: f16[G,M,16], %k: f16[G,N,16], %v: f16[G,N,16]) -> (%y: f32[G,M,16]) {\n"
	"  s: f32[G,M,N]\n  most: f32[G,M]\n  e: f32[G,M,N]\n  total: f32[G,M]\n  o: f32[G,M,16]\n"
	"  s[g0,m0,n0] = sum mul(q[g0,m0,c0], k[g0,n0,c0]) for g0 < G, m0 < M, n0 < N over c0 < 16\n"
	"  most[g1,m1] = max s[g1,m1,n1] for g1 < G, m1 < M over n1 < N\n"
	"  e[g2,m2,n2] = exp2(sub(s[g2,m2,n2], most[g2,m2])) for g2 < G, m2 < M, n2 < N\n"
	"  total[g3,m3] = sum e[g3,m3,n3] for g3 < G, m3 < M over n3 < N\n"
	"  o[g4,m4,d4] = sum mul(e[g4,m4,n4], v[g4,n4,d4]) for g4 < G, m4 < M, d4 < 16 over n4 < N\n"
	"  y[g5,m5,d5] = div(o[g5,m5,d5], total[g5,m5]) for g5 < G, m5 < M, d5 < 16\n}";

/* clang-format off */
#define WARPS "0 warp 2*16, "
#define ROWS WARPS "0 reg 2*8, 0 lane 8*1, -1 lane 4*1"
#define SUMS(n) WARPS "1 reg " n "*8, 0 reg 2*8, 0 lane 8*1, 1 lane 4*2, 1 reg 2*1"
#define BLOCKS(n) "dim(floor(" n " + 31, 32))"

static const char tree[] =
	"  stage k: attention, parallel p < G*floor(M + 31, 32) group 64 of 64, scratch 5888\n"
	"    let mb < floor(M + 31, 32) = mod(p, " BLOCKS("M") ")\n"
	"    let g < G = floordiv(p, " BLOCKS("M") ")\n"
	"    local q_tile: f16[32, 16] in scratch at 0 in 0 at 32*1+48, 1 at 16*1+2\n"
	"    local k_tile: f16[32, 16] in scratch at 1536 in 0 at 32*1+48, 1 at 16*1+2\n"
	"    local v_tile: f16[32, 16] in scratch at 3072 in 0 at 32*1+48, 1 at 16*1+2\n"
	"    local score: f32[32, 32] in " SUMS("4") "\n"
	"    local weight: f16[32, 32] in " SUMS("4") "\n"
	"    local sums: f32[32, 16] in " SUMS("2") "\n"
	"    local high: f32[32] in " ROWS "\n"
	"    local next: f32[32] in " ROWS "\n"
	"    local rows: f32[32] in " ROWS "\n"
	"    copy r < 32, c < 16 vector 8 async: q_tile[r,c] = q[mb*512 + g*dim(16*M) + r*16 + c] where lt(mb*32 + r, dim(M))\n"
	"    map m < 32 in " ROWS ": high[m] = -inf\n"
	"    map m < 32 in " ROWS ": rows[m] = 0\n"
	"    map m < 32, d < 16 in " SUMS("2") ": sums[m,d] = 0\n"
	"    for jb in [0, " BLOCKS("N") ")\n"
	"      copy r < 32, c < 16 vector 8 async: k_tile[r,c] = k[g*dim(16*N) + jb*512 + r*16 + c] where lt(jb*32 + r, dim(N))\n"
	"      copy r < 32, c < 16 vector 8: v_tile[r,c] = v[g*dim(16*N) + jb*512 + r*16 + c] where lt(jb*32 + r, dim(N))\n"
	"      sync commit\n"
	"      sync wait 0\n"
	"      sync barrier\n"
	"      dot m < 32, n < 32, c < 16 by f16: score[m,n] = q_tile[m,c] times k_tile[n,c]\n"
	"      map m < 32, n < 32 in " SUMS("4") ": score[m,n] = select(lt(jb*32 + n, dim(N)), score[m,n], -inf)\n"
	"      fold m < 32, n < 32 in " SUMS("4") ": next[m] = max score[m,n]\n"
	"      map m < 32 in " ROWS ": next[m] = max(next[m], high[m])\n"
	"      map m < 32 in " ROWS ": high[m] = exp2(sub(high[m], next[m]))\n"
	"      map m < 32 in " ROWS ": rows[m] = mul(rows[m], high[m])\n"
	"      map m < 32, d < 16 in " SUMS("2") ": sums[m,d] = mul(sums[m,d], high[m])\n"
	"      map m < 32 in " ROWS ": high[m] = next[m]\n"
	"      map m < 32, n < 32 in " SUMS("4") ": score[m,n] = exp2(sub(score[m,n], high[m]))\n"
	"      map m < 32, n < 32 in " SUMS("4") ": weight[m,n] = score[m,n]\n"
	"      fold m < 32, n < 32 in " SUMS("4") ": rows[m] sum= weight[m,n] by f16\n"
	"      dot m < 32, d < 16, n < 32 by f16: sums[m,d] += weight[m,n] times v_tile[n,d]\n"
	"      sync barrier\n"
	"    map m < 32, d < 16 in " SUMS("2") ": y[mb*512 + g*dim(16*M) + m*16 + d] = div(sums[m,d], rows[m]) where lt(mb*32 + m, dim(M))\n";
/* clang-format on */

/* The first FROM of the tree becomes TO; part of the diagnostic of the reader or the verifier, or
 * of the fault of the interpreter. */
static const struct {
	const char *from, *to, *fault;
} faults[] = {
	{"let mb", "set mb", "expected a node"},
	{"vector 8 async", "vector 8 asynch", "expected ':'"},
	{"by f16", "by f17", "no instruction \"f17\""},
	{"score[m,n], -inf", "scores[m,n], -inf", "no buffer"},
	{"0 warp 2*16, 1 reg", "0 wrap 2*16, 1 reg", "expected a layout"},
	{"      sync commit", "     sync commit", "indented by 5 columns"},
	{"scratch 5888", "scratch 4096", "scratch is too small for v_tile"},
	{"r < 32, c < 16 vector 8", "r < 32, c < 12 vector 8", "not a multiple of the vector"},
	{"copy r < 32, c < 16", "copy r < M, c < 16", "a tile has no such extent as that of r"},
	{"vector 8 async", "vector 1 async", "not one load of 4, 8 or 16 bytes"},
	{"0 at 32*1+48", "0 at 32*1+44", "not aligned in q_tile"},
	{"dot m < 32, n < 32, c < 16", "dot m < 32, n < 30, c < 16", "not multiples of"},
	{"by f16", "by bf16", "another type than the instruction bf16"},
	{"by f16", "by tf32", "another type than the instruction tf32"},
	{"times k_tile[n,c]", "times k_tile[n,m]", "not a tile at two of the iterators"},
	{"score[m,n] = q_tile", "next[m] = q_tile", "sums to a tile in registers, not next"},
	{"local weight: f16[32, 32] in " WARPS
	 "1 reg 4*8, 0 reg 2*8, 0 lane 8*1, 1 lane 4*2, 1 reg 2*1",
	 "local weight: f16[32, 32] in " WARPS
	 "1 reg 4*8, 0 reg 2*8, 0 lane 8*1, 1 lane 4*1, 1 reg 2*4",
	 "a thread does not hold what it accesses of weight"},
	{"map m < 32 in " ROWS ": high[m] = next[m]",
	 "map m < 32 in " WARPS "0 reg 2*1, 0 lane 8*2, -1 lane 4*1: high[m] = next[m]",
	 "does not hold what it accesses of next"},
	{"map m < 32 in " WARPS "0 reg 2*8,", "map m < 32 in 0 warp 2*12, 0 reg 3*6,",
	 "each point once"},
	{"map m < 32 in " WARPS, "map m < 16 in ", "other threads than the block"},
	{"fold m < 32, n < 32 in " WARPS "1 reg 4*8",
	 "fold m < 32, n < 32 in 1 warp 2*8, 0 reg 2*16, 1 reg 2*16",
	 "a fold combines points of several warps"},
	{"weight[m,n] by f16", "score[m,n] by f16", "does not sum rows of its operand: f16"},
	{"sum= weight[m,n]", "max= weight[m,n]", "does not sum rows of its operand: f16"},
	{"sum= weight[m,n]", "sum= weight[n,m]", "reads another element than its point's: weight"},
	{"fold m < 32, n < 32 in " SUMS("4") ": rows[m] sum",
	 "fold m < 32, n < 32 in " WARPS
	 "0 reg 2*8, 1 reg 4*8, 0 lane 8*1, 1 lane 4*2, 1 reg 2*1: rows[m] sum",
	 "the points do not lie as the sums of f16"},
	{"sub(score[m,n], high[m])", "sub(score[m,n], high[n])",
	 "does not hold what it accesses of high"},
	{"      sync wait 0\n", "", "in flight to"},
	{"      sync commit\n", "", "in flight to"},
	{"sync wait 0", "sync wait 1", "in flight to"},
	{"    map m < 32 in " ROWS ": rows[m] = 0\n", "", "nothing wrote what is read of rows"},
	{"lt(jb*32 + r, dim(N))", "lt(jb*32 + r, dim(N + 1))", "an index leaves k"},
	{"-inf), score", "0), score", NULL},
	{"select(lt(jb*32 + n, dim(N)), score[m,n], -inf)",
	 "select(lt(jb*32 + n, dim(N)), score[m,n], 0)", "another result"},
	{"mul(sums[m,d], high[m])", "sums[m,d]", "another result"},
};

typedef struct Fixture {
	Ctx *c;
	Arena *a;
	Kernel *k;
	StrBuf said;
	Diag diag;
} Fixture;

static void say(void *arg, DiagLoc loc, const char *text)
{
	(void)loc;
	strbuf_printf(arg, "%s\n", text);
}

static void open_kernel(Fixture *f)
{
	const char *text = kernel_text;
	int line = 1;

	*f = (Fixture){.diag = {.limit = 10, .sink = say}};
	f->diag.sink_arg = &f->said;
	f->c = ctx_new(&f->diag);
	f->a = arena_new();
	f->k = kernel_parse(f->c, f->a, &text, &line);
	for (int i = 0; i < f->k->bufs.n; i++)
		f->k->bufs.at[i]->id = i;
}

static void close_kernel(Fixture *f)
{
	strbuf_free(&f->said);
	arena_free(f->a);
	ctx_free(f->c);
}

static int64_t elements(const Fixture *f, const Buf *b, const int64_t *sym)
{
	int64_t n = 0;

	dim_eval(buf_numel(f->c, b), sym, &n);
	return n;
}

/* Random integers of which scores and weighted sums are exact in f32. The first half of the keys is
 * 0, so that the maxima of later blocks are higher. */
static void fill(const Buf *b, void *data, int64_t n, uint64_t *seed)
{
	for (int64_t i = 0; i < n; i++) {
		const bool zero = b->name[0] == 'k' ? i % 16 > 2 || i < n / 2
						    : b->name[0] == 'q' && i % 16 > 2;

		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		dtype_store_f64(b->dtype, data, i, zero ? 0 : (double)(*seed >> 63));
	}
}

/* Runs S with G, M and N; null, or what is wrong. */
static const char *run(const Fixture *f, const Schedule *s, const int64_t *want)
{
	int64_t *sym = NEW_ARRAY(f->a, sym_count(f->c) + 1, int64_t);
	EvalBuf *bufs = NEW_ARRAY(f->a, f->k->bufs.n, EvalBuf);
	void **memory = NEW_ARRAY(f->a, f->k->bufs.n, void *);
	const char *const names[] = {"G", "M", "N"}, *fault;
	uint64_t seed = 1;
	const Buf *y = NULL;
	int64_t n = 0;

	for (int i = 0; i < 3; i++)
		sym[sym_get(f->c, names[i])->id] = want[i];
	for (int i = 0; i < f->k->bufs.n; i++) {
		const Buf *b = f->k->bufs.at[i];

		if (b->kind == BUF_TEMP)
			continue;
		n = elements(f, b, sym);
		memory[i] = arena_alloc(f->a, (size_t)n * 4 + 16);
		memset(memory[i], 0xff, (size_t)n * 4 + 16);
		bufs[i].data = memory[i];
		if (b->kind == BUF_IN)
			fill(b, memory[i], n, &seed);
		else
			y = b;
	}
	fault = tiles_run(s, &(TileRun){.sym = sym, .memory = memory});
	if (fault)
		return fault;
	bufs[y->id].data = arena_alloc(f->a, (size_t)n * 4 + 16);
	n = elements(f, y, sym);
	if (eval_kernel(f->k, &(EvalOpts){.sym = sym}, bufs, NULL) != EVAL_OK)
		return "eval";
	return memcmp(bufs[y->id].data, memory[y->id], (size_t)n * 4) ? "another result" : NULL;
}

static void wrong(const char *what, const char *said)
{
	failed++;
	printf("test_tile_ops.c: %s: %s\n", what, said);
}

static void test_whole(void)
{
	static const int64_t sizes[][3] = {{1, 1, 1},   {2, 31, 33}, {1, 32, 32}, {2, 33, 31},
					   {1, 17, 64}, {3, 1, 130}, {1, 65, 96}, {0, 5, 5}};
	Fixture f;
	StrBuf b = {0};
	Schedule *s;

	open_kernel(&f);
	s = schedule_parse_bare(f.k, tree);
	if (s)
		schedule_print_bare(&b, s);
	if (!s || strcmp(strbuf_str(&b), tree))
		wrong("another text after reading", s ? strbuf_str(&b) : strbuf_str(&f.said));
	else if (!tiles_verify(s, &f.diag))
		wrong("the verifier refuses the tree", strbuf_str(&f.said));
	for (size_t i = 0; s && i < sizeof sizes / sizeof *sizes; i++) {
		const char *fault = run(&f, s, sizes[i]);

		if (fault)
			wrong("the interpreter", fault);
	}
	strbuf_free(&b);
	close_kernel(&f);
}

static void test_fault(const char *from, const char *to, const char *fault)
{
	const char *at = strstr(tree, from), *said = "";
	StrBuf b = {0};
	Schedule *s;
	Fixture f;

	if (!fault)
		return;
	if (!at) {
		wrong("the tree does not contain", from);
		return;
	}
	strbuf_printf(&b, "%.*s%s%s", (int)(at - tree), tree, to, at + strlen(from));
	open_kernel(&f);
	s = schedule_parse_bare(f.k, strbuf_str(&b));
	if (!s || !tiles_verify(s, &f.diag))
		said = strbuf_str(&f.said);
	else
		said = run(&f, s, (int64_t[]){1, 40, 70});
	if (!said || !strstr(said, fault)) {
		wrong(to, said ? said : "no fault");
		printf("  expected: %s\n", fault);
	}
	strbuf_free(&b);
	close_kernel(&f);
}

/* A text that is cut off anywhere is refused or read, without a crash. */
static void test_cut(void)
{
	for (size_t n = 0; n < sizeof tree; n += 7) {
		Fixture f;
		Schedule *s;

		open_kernel(&f);
		s = schedule_parse_bare(f.k, arena_strndup(f.a, tree, n));
		if (s)
			tiles_verify(s, &f.diag);
		close_kernel(&f);
	}
}

/* The most different words that one bank has of those that LANES threads from T on store at
 * once. */
static int most_in_bank(PieceOrder o, int64_t pieces, int64_t t, int bytes, int64_t pitch)
{
	const int words = bytes < 4 ? 1 : bytes / 4, lanes = 32 / words;
	bool used[1024] = {false};
	int most = 0, in_bank[32] = {0};

	for (int i = 0; i < lanes * words; i++) {
		int64_t row, piece, word;

		tile_piece(o, pieces, t + i / words, &row, &piece);
		word = (row * pitch + piece * bytes) / 4 + i % words;
		in_bank[word % 32] += !used[word % 1024];
		used[word % 1024] = true;
		most = in_bank[word % 32] > most ? in_bank[word % 32] : most;
	}
	return most;
}

/* Copies of ROWS rows of PIECES pieces of BYTES: each piece is copied once, where they are powers
 * of two by the thread that has it in the layout of registers; no bank has two words of one access
 * if FREE_OF_CONFLICTS. */
static void test_order(int rows, int pieces, int bytes, int64_t pitch, bool free_of_conflicts)
{
	enum { THREADS = 128 };
	Fixture f;
	TileNode n = {.op = TILE_COPY, .n = 3, .nidx = 2, .vector = bytes};
	TileLayout to = {.rank = 2}, l;
	const bool powers_of_two = !(rows & (rows - 1)) && !(pieces & (pieces - 1));
	char *seen = calloc((size_t)rows * (size_t)pieces, 1);
	PieceOrder o;
	ExprPool *p;
	Buf b = {.name = "b", .dtype = DT_U8, .rank = 2, .tile = &to};

	open_kernel(&f);
	p = f.k->pool;
	for (int i = 0; i < 3; i++)
		n.it[i] = kernel_iter(f.k, "i", dim_const(f.c, (int[]){rows, pieces, bytes}[i]));
	layout_add(&to, 0, AT_ADDRESS, rows, 1, pitch);
	layout_add(&to, 1, AT_ADDRESS, pieces * bytes, 1, 1);
	n.to = &b;
	n.val = ex_int(p, CT_I64, 0);
	n.idx[0] = ex_iter(p, n.it[0]);
	n.idx[1] = ex_add(p, ex_mul(p, ex_iter(p, n.it[1]), ex_int(p, CT_I64, bytes)),
			  ex_iter(p, n.it[2]));
	if (!tile_piece_order(p, &n, THREADS, &o))
		wrong("a copy has no order", "");
	l = tile_pieces(&n, o, THREADS / WARP_LANES);
	for (int64_t t = 0; t < (int64_t)rows * pieces; t++) {
		const int lanes = bytes < 4 ? 32 : 128 / bytes;
		int64_t row, piece, at[TILE_RANK];

		tile_piece(o, pieces, t, &row, &piece);
		layout_element(&l, t / THREADS * bytes, t % WARP_LANES,
			       t / WARP_LANES % (THREADS / WARP_LANES), at);
		if (row >= rows || piece >= pieces || seen[row * pieces + piece]++)
			wrong("a piece is not copied once", "");
		if (powers_of_two && (at[0] != row || at[1] != piece || at[2]))
			wrong("a register has another piece", "");
		if (free_of_conflicts && t % lanes == 0 &&
		    most_in_bank(o, pieces, t, bytes, pitch) > 1)
			wrong("banks have conflicts", "");
	}
	free(seen);
	close_kernel(&f);
}

static void test_orders(void)
{
	for (int pieces = 1; pieces <= 16; pieces *= 2) /* odd pitches, in 16 bytes */
		test_order(64, pieces, 16, pieces > 1 ? pieces * 16 + 16 : 16, true);
	test_order(64, 2, 8, 16, true);
	test_order(64, 4, 8, 48, true);
	test_order(64, 8, 8, 80, false); /* a warp would have parts of too many rows */
	for (int pieces = 3; pieces <= 12; pieces += 3)
		test_order(64, pieces, 16, (pieces | 1) * 16, true);
	test_order(64, 16, 4, 160, false);
	test_order(36, 8, 2, 16, false);
}

int main(void)
{
	test_orders();
	test_whole();
	test_cut();
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		test_fault(faults[i].from, faults[i].to, faults[i].fault);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
