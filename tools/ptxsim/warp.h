/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of execution: a launch is a grid of blocks, a block has warps, a warp has 32 lanes that
 * run in step.
 *
 * Lanes that branch apart are kept on a stack: an entry has the lanes, where they are, and where
 * they meet those below. Which side of a branch runs first, which warp runs next and for how long
 * is drawn from a seed. A worker is a thread of the host with the memory that its block needs; the
 * block runs until it ends or faults.
 */
#ifndef TOOLS_PTXSIM_WARP_H
#define TOOLS_PTXSIM_WARP_H

#include "tools/ptxsim/count.h"
#include "tools/ptxsim/memory.h"
#include "tools/ptxsim/ptx.h"

#include <setjmp.h>

enum Special {
#define SPECIAL(id, name, bytes) S_##id,
#include "tools/ptxsim/special.def"
#undef SPECIAL
	N_SPECIALS
};
enum {
	SPECIAL_BYTES = 256,
	MAX_WARPS = 32,
	MAX_DEPTH = 64,
	N_BARRIERS = 16,
	N_BULK = 64,
	WARP_SIZE = 32,
	N_MBARS = 64,
	CLOCKS = MAX_WARPS + 1
};

/* Windows of the generic address space. */
static const uint64_t SHARED_WINDOW = 0x0100000000000000, LOCAL_WINDOW = 0x0200000000000000,
		      PARAM_WINDOW = 0x0300000000000000, WINDOW_SIZE = 0x0100000000000000;

typedef struct Block Block;
typedef struct Launch Launch;
typedef struct Worker Worker;
typedef struct Shadow Shadow;

typedef struct Entry {
	int pc, meet;
	uint32_t mask;
	bool held; /* it came to where all must be, and others were not there */
} Entry;

/* Memory that is separate for each thread: a thread's bytes are contiguous, with another byte each
 * that records whether it was written. */
typedef struct Private {
	uint8_t *bytes, *init;
	uint32_t size; /* of one thread */
	size_t cap;
} Private;

typedef struct Frame {
	const Func *f;
	uint8_t *regs;
	size_t cap;
	uint32_t local_at, frame_at; /* where its variables and its parameters begin */
	int stack;		     /* entries below it */
	uint32_t mask;		     /* the lanes that called */
	const Inst *call;
} Frame;

/* A copy that cp.async has begun. */
typedef struct Copy {
	uint64_t from;
	uint32_t to, size, filled; /* FILLED bytes come from FROM, the rest are zeros */
	uint32_t group;
	int lane;
	const Inst *in;
} Copy;

/* A bulk copy that is on its way, and the mbarrier that its bytes arrive at. */
typedef struct Bulk {
	uint64_t from;
	uint32_t to, size, mbar;
	int warp, lane;
	const Inst *in;
} Bulk;

/* A wgmma that a warp has begun: the rows of the warp. SUMS is shared by those that add to the same
 * registers, and is the last one's. */
typedef struct Wgmma {
	const Inst *in;
	uint32_t group;
	uint64_t desc[2];
	bool adds;
	uint32_t a[4][WARP_SIZE]; /* A in registers */
	float *sums;
} Wgmma;

/* The moments that a warp has seen (shadow.h): the last one of each warp and of bulk copies, and
 * the last one of each warp whose stores a fence made visible to asynchronous operations. */
typedef struct Seen {
	uint32_t clock[CLOCKS], fenced[MAX_WARPS];
} Seen;

typedef enum WarpState { WARP_READY, WARP_WAITING, WARP_DONE } WarpState;

struct Warp {
	uint8_t *bank[N_BANKS];
	Entry *stack;
	int n_stack, cap_stack;
	int pc;
	uint32_t mask; /* the lanes of the top entry */
	uint32_t live; /* lanes that have not ended */
	int id;
	WarpState state;
	Block *block;
	const Inst *in; /* that runs */
	uint32_t carry; /* the flag of each lane */
	int barrier;	/* where it waits */
	int depth;
	Frame frame[MAX_DEPTH];
	Private local, params;
	Seen seen;
	Copy *copy;
	int n_copies, cap_copies;
	uint32_t group[32]; /* groups of cp.async that a lane has committed */
	Wgmma *mma;
	int n_mma, cap_mma, all_mma; /* ALL_MMA: how many the warp has begun */
	uint32_t mma_group;
	bool mma_fenced; /* wgmma.fence since the registers were last readable */
	_Alignas(64) uint8_t special[N_SPECIALS * SPECIAL_BYTES];
};

typedef struct Barrier {
	int expected, arrived; /* threads */
	uint32_t waiting;      /* warps */
	Seen seen;
	const Inst *in;
	uint32_t ones, threads; /* of bar.red */
} Barrier;

/* An mbarrier, by its address in shared memory. */
typedef struct Mbar {
	uint32_t at;
	bool valid;
	uint32_t expected, pending, phase;
	int64_t bytes;				    /* that are still to come */
	Seen seen, done; /* by the threads that arrived, in this phase, in the last one */
} Mbar;

struct Block {
	Launch *launch;
	Worker *worker;
	uint32_t id[3];
	uint64_t index;
	int n_warps, n_threads, n_exited;
	uint8_t *shared;
	uint32_t shared_bytes, dynamic_at;
	Shadow *shadow;
	Barrier barrier[N_BARRIERS];
	uint64_t random, time;
	uint64_t steps; /* warp instructions so far */
	int n_bulk;
	Bulk bulk[N_BULK]; /* on their way */
	uint32_t landed;   /* the last moment of bulk copies */
	int n_mbars;
	Mbar mbar[N_MBARS]; /* the last member */
};

typedef struct Fault {
	int code; /* a CUresult; 0: none */
	char text[1500];
} Fault;

struct Worker {
	Warp *warp[MAX_WARPS];
	uint8_t *shared;
	size_t shared_cap;
	Shadow *shadow;
	Counters count;
	Block block;
	Alloc *last; /* the allocation that was used last */
	jmp_buf stop;
	Fault fault;
};

struct Launch {
	const Func *f;
	uint32_t grid[3], block[3], dynamic_shared, grid_id, n_sm;
	const uint8_t *params;
	uint64_t seed, limit; /* LIMIT: warp instructions of a block, 0: none */
	bool trace;
	/* Workers take blocks from here. */
	uint64_t next, n_blocks, order_mul, order_add;
	Fault fault;
	uint64_t fault_at;
};

/* ---- launch.c ---- */
/* Runs a launch; its fault has the outcome. Counters are added to the kernel's record. */
void launch_run(Launch *l);

/* ---- run.c ---- */
/* A number below N drawn from the block's seed. */
uint32_t draw(Block *b, uint32_t n);
uint64_t mix(uint64_t x);

/* Ends the launch with a fault of the kernel. CODE is a CUresult, LANE the thread, -1: the warp. */
_Noreturn void fault(Warp *w, int lane, int code, const char *fmt, ...) BASE_PRINTF(4, 5);

#endif
