/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capture of streams: operations that would be put into a stream become nodes of a graph. A stream
 * that waits for an event of a capture joins it. Calls that the driver does not permit then are
 * errors that invalidate the capture. If its documentation leaves open whether a call is permitted,
 * it is not: waiting for and querying any stream or event, and memory that is not stream-ordered.
 * CU_STREAM_CAPTURE_MODE_GLOBAL and _THREAD_LOCAL determine which threads this affects.
 *
 * Not simulated, and refused: launches of graphs, allocations and copies of pageable memory in a
 * stream that is captured.
 */
#include "tools/ptxsim/driver.h"

#include <stdlib.h>

enum { GLOBAL, THREAD_LOCAL, RELAXED }; /* CU_STREAM_CAPTURE_MODE_ */

struct Capture {
	Capture *next; /* all that were ever begun: events name them after their end */
	CUgraph graph; /* null: ended */
	CUstream origin;
	int mode;
	const void *thread;
	bool invalid;
};

static Capture *captures;
static _Thread_local int interaction; /* of this thread: a mode; its address is the thread's name */

/* ---- What is permitted ---- */

static CUresult invalidate(Capture *c, CUresult r)
{
	c->invalid = true;
	return r;
}

/* The null stream waits for blocking streams, so it is of no use while one is captured. HARM:
 * the use ends that capture. */
static CUresult null_stream_error(bool harm)
{
	CUresult r = CUDA_SUCCESS;

	for (CUstream s = NULL; (s = next_head(s, K_STREAM)) != NULL;)
		if (s->capture && s->blocking) {
			r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
			s->capture->invalid = s->capture->invalid || harm;
		}
	return r;
}

CUresult stream_for(CUstream handle, StreamUse use, CUstream *s)
{
	*s = stream_of(handle);
	if (!*s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (*s == &driver.null_stream)
		return null_stream_error(true);
	if (!(*s)->capture)
		return CUDA_SUCCESS;
	if ((*s)->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	return use == CAPTURABLE ? CUDA_SUCCESS
				 : invalidate((*s)->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

static bool prohibits(const Capture *c)
{
	const bool mine = c->thread == &interaction;

	return c->graph && c->mode != RELAXED && interaction != RELAXED &&
	       (mine || (c->mode == GLOBAL && interaction == GLOBAL));
}

CUresult enter_unsafe(const char *name)
{
	CUresult r = enter(name, true);

	for (Capture *c = captures; c && !r; c = c->next)
		if (prohibits(c))
			r = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return r;
}

/* ---- What is captured ---- */

uint64_t capture_push(CUstream s, Work w)
{
	CUgraphNode *after = calloc((size_t)s->ends.n + 1, sizeof *after), node;
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	for (int i = 0; after && i < s->ends.n; i++)
		after[i] = (CUgraphNode)(uintptr_t)s->ends.at[i];
	if (after)
		r = graph_add(&node, s->capture->graph, after, (size_t)s->ends.n, w);
	else
		work_free(&w);
	free(after);
	if (r)
		return 0;
	s->ends.n = 0;
	seq_push(&s->ends, (uint64_t)(uintptr_t)node);
	return 1; /* which was done long ago */
}

static void add_ends(Seq *to, const Seq *from)
{
	for (int i = 0; i < from->n; i++) {
		bool there = false;

		for (int k = 0; k < to->n; k++)
			there = there || to->at[k] == from->at[i];
		if (!there)
			seq_push(to, from->at[i]);
	}
}

void capture_record(CUevent e, CUstream s)
{
	e->capture = s->capture;
	e->ends.n = 0;
	if (s->capture)
		add_ends(&e->ends, &s->ends);
}

CUresult capture_wait(CUstream s, CUevent e)
{
	if (!e->capture)
		return e->op ? invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
			     : CUDA_SUCCESS;
	if (!e->capture->graph)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (s == &driver.null_stream)
		return invalidate(e->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	if (s->capture && s->capture != e->capture) {
		e->capture->invalid = true;
		return invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
	}
	s->capture = e->capture;
	add_ends(&s->ends, &e->ends);
	return CUDA_SUCCESS;
}

CUresult capture_event_error(CUevent e)
{
	if (!e->capture)
		return CUDA_SUCCESS;
	return invalidate(e->capture, CUDA_ERROR_CAPTURED_EVENT);
}

void capture_leave(CUstream s)
{
	if (s->capture && s->capture->graph)
		s->capture->invalid = true;
	s->capture = NULL;
	s->ends.n = 0;
}

/* ---- Begin and end ---- */

API CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	CUresult r = enter("cuStreamBeginCapture_v2", true);
	CUstream s = stream_of(stream);
	Capture *c = NULL;

	if (!r && !s)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r && s == &driver.null_stream)
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!r && s->capture)
		r = CUDA_ERROR_ILLEGAL_STATE;
	if (!r && (mode < GLOBAL || mode > RELAXED))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		c = calloc(1, sizeof *c);
		r = c ? graph_new(&c->graph) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r) {
		free(c);
		return leave(r);
	}
	c->origin = s;
	c->mode = mode;
	c->thread = &interaction;
	c->next = captures;
	captures = c;
	s->capture = c;
	return leave(r);
}

/* The last operations of all streams of C come before the end of the origin. */
static bool all_joined(const Capture *c)
{
	for (CUstream s = NULL; (s = next_head(s, K_STREAM)) != NULL;)
		for (int i = 0; s->capture == c && i < s->ends.n; i++)
			if (!graph_precedes(c->graph, (CUgraphNode)(uintptr_t)s->ends.at[i],
					    &c->origin->ends))
				return false;
	return true;
}

API CUresult cuStreamEndCapture(CUstream stream, CUgraph *out)
{
	CUresult r = enter("cuStreamEndCapture", true);
	CUstream s = stream_of(stream);
	Capture *c = s ? s->capture : NULL;
	CUgraph g;

	*out = NULL;
	if (!r && !s)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r && !c)
		r = CUDA_ERROR_ILLEGAL_STATE;
	if (!r && c->mode != RELAXED && c->thread != &interaction)
		r = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (r)
		return leave(r);
	if (c->origin != s)
		return leave(invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED));
	if (c->invalid)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!all_joined(c))
		r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	g = c->graph;
	c->graph = NULL;
	for (CUstream t = NULL; (t = next_head(t, K_STREAM)) != NULL;)
		if (t->capture == c)
			capture_leave(t);
	if (r)
		graph_free(g);
	else
		*out = g;
	return leave(r);
}

API CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
	enum { NONE, ACTIVE, INVALIDATED };
	CUresult r = enter("cuStreamIsCapturing", true);
	CUstream s = stream_of(stream);

	if (!r && !s)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r && s == &driver.null_stream)
		r = null_stream_error(false);
	if (!r)
		*status = !s->capture ? NONE : s->capture->invalid ? INVALIDATED : ACTIVE;
	return leave(r);
}

API CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	CUresult r = enter("cuThreadExchangeStreamCaptureMode", false);
	const int before = interaction;

	if (!r && (*mode < GLOBAL || *mode > RELAXED))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		interaction = *mode;
		*mode = before;
	}
	return leave(r);
}
