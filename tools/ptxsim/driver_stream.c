/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for streams and events. */
#include "tools/ptxsim/driver.h"

#include <stdlib.h>

API CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
	CUresult r = enter("cuStreamCreate", true);
	CUstream s = r ? NULL : new_head(K_STREAM, sizeof *s);

	if (!r && !s)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (!r) {
		s->blocking = !(flags & 1);
		*out = s;
	}
	return leave(r);
}

API CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
	(void)priority;
	return cuStreamCreate(out, flags);
}

/* A stream may go while its work is still to come. */
API CUresult cuStreamDestroy_v2(CUstream s)
{
	CUresult r = enter("cuStreamDestroy_v2", true);

	if (r && r != driver.sticky)
		return leave(r);
	if (!is_head(s, K_STREAM))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	capture_leave(s);
	free(s->waits.at);
	free(s->ends.at);
	free_head(s);
	return leave(r);
}

static uint64_t last_of(CUstream s)
{
	/* A stream's waits belong to it even if no operation followed. */
	return s->waits.n ? queue_push(s, (Work){.type = OP_NOTHING}) : s->last;
}

API CUresult cuStreamSynchronize(CUstream stream)
{
	CUresult r = enter_unsafe("cuStreamSynchronize");
	CUstream s;

	r = r ? r : stream_for(stream, NOT_CAPTURABLE, &s);
	if (!r && s == &driver.null_stream)
		r = queue_force(queue_push(s, (Work){.type = OP_NOTHING}));
	else if (!r)
		r = queue_force(last_of(s));
	return leave(r);
}

static CUresult query(uint64_t op)
{
	if (!queue_done(op))
		queue_step(op);
	return driver.sticky ? driver.sticky : queue_done(op) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

API CUresult cuStreamQuery(CUstream stream)
{
	CUresult r = enter_unsafe("cuStreamQuery");
	CUstream s;

	r = r ? r : stream_for(stream, NOT_CAPTURABLE, &s);
	return leave(r ? r : query(last_of(s)));
}

API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	CUresult r = enter("cuStreamWaitEvent", true);
	CUstream s;

	(void)flags;
	r = r ? r : stream_for(stream, CAPTURABLE, &s);
	if (!r && !is_head(event, K_EVENT))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r && (s->capture || event->capture))
		return leave(capture_wait(s, event));
	if (!r && event->op)
		seq_push(&s->waits, event->op);
	return leave(r);
}

API CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	CUresult r = enter("cuStreamGetCtx", true);

	if (!r && !stream_of(stream))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r)
		*context = current_context();
	return leave(r);
}

API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn *fn, void *data)
{
	CUresult r = enter("cuLaunchHostFunc", true);
	CUstream s;

	r = r ? r : stream_for(stream, CAPTURABLE, &s);
	if (!r && !fn)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r && !queue_push(s, (Work){.type = OP_HOST, .fn = fn, .data = data}))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	return leave(r);
}

/* ---- Events ---- */

API CUresult cuEventCreate(CUevent *out, unsigned flags)
{
	CUresult r = enter("cuEventCreate", true);
	CUevent e = r ? NULL : new_head(K_EVENT, sizeof *e);

	if (!r && !e)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (!r) {
		e->timing = !(flags & 2);
		*out = e;
	}
	return leave(r);
}

API CUresult cuEventDestroy_v2(CUevent e)
{
	CUresult r = enter("cuEventDestroy_v2", true);

	if (r && r != driver.sticky)
		return leave(r);
	if (!is_head(e, K_EVENT))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	free(e->ends.at);
	free_head(e);
	return leave(r);
}

API CUresult cuEventRecord(CUevent e, CUstream stream)
{
	CUresult r = enter("cuEventRecord", true);
	CUstream s;

	r = r ? r : stream_for(stream, CAPTURABLE, &s);
	if (!r && !is_head(e, K_EVENT))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r)
		capture_record(e, s);
	if (!r && !e->capture) {
		e->op = queue_push(s, (Work){.type = OP_RECORD, .event = e});
		r = e->op ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	return leave(r);
}

API CUresult cuEventSynchronize(CUevent e)
{
	CUresult r = enter_unsafe("cuEventSynchronize");

	if (!r && !is_head(e, K_EVENT))
		r = CUDA_ERROR_INVALID_HANDLE;
	r = r ? r : capture_event_error(e);
	return leave(r ? r : queue_force(e->op));
}

API CUresult cuEventQuery(CUevent e)
{
	CUresult r = enter_unsafe("cuEventQuery");

	if (!r && !is_head(e, K_EVENT))
		r = CUDA_ERROR_INVALID_HANDLE;
	r = r ? r : capture_event_error(e);
	return leave(r ? r : query(e->op));
}

/* Time is the amount of moved data, not the time of a clock, so that it is the same in every
 * run. */
API CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
	CUresult r = enter("cuEventElapsedTime", true);

	if (!r && (!is_head(from, K_EVENT) || !is_head(to, K_EVENT) || !from->timing ||
		   !to->timing || !from->op || !to->op))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r && (!queue_done(from->op) || !queue_done(to->op)))
		r = CUDA_ERROR_NOT_READY;
	if (!r)
		*ms = ((float)to->when - (float)from->when) * 1e-6f;
	return leave(r);
}

API CUresult cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to)
{
	return cuEventElapsedTime(ms, from, to);
}
