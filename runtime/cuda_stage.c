/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies inputs and outputs that the caller has on the host, through pinned memory. A large one is
 * copied in pieces, so that the host copies one piece while the GPU transfers another. The pieces
 * of an input are in the stream before the run's kernels, those of an output after them, each with
 * an event. A small one is copied as a whole, by a node of the graph if there is one.
 */
#include "runtime/cuda.h"

#include <string.h>

/* The size of each piece except the last. */
static uint64_t piece_bytes(uint64_t bytes)
{
	const uint64_t even = ((bytes + GPU_PIECES - 1) / GPU_PIECES + 63) & ~(uint64_t)63;

	return bytes < 2 * GPU_PIECE ? bytes : even < GPU_PIECE ? GPU_PIECE : even;
}

bool gpu_in_pieces(const GpuIo *io)
{
	return io->bytes > piece_bytes(io->bytes);
}

/* The size of the piece at AT. */
static uint64_t piece_at(const GpuIo *io, uint64_t at)
{
	const uint64_t piece = piece_bytes(io->bytes), left = io->bytes - at;

	return left < piece ? left : piece;
}

/* ---- Memory ---- */

static int make_events(dl_context *c, GpuIo *io)
{
	int n = 0;

	for (uint64_t at = 0; at < io->bytes; at += piece_at(io, at), n++) {
		const int rc = io->arrived[n] ? 0
					      : c->model->gpu->cuda->cuEventCreate(&io->arrived[n],
										   CUDA_NO_TIMING);

		if (rc)
			return io->arrived[n] = NULL, gpu_fail(c, rc, "an event");
	}
	return DL_OK;
}

int gpu_stage(dl_context *c, GpuIo *io)
{
	if (gpu_pin(c, &io->pinned, io->bytes))
		return c->x.status;
	return io >= c->gpu->out && gpu_in_pieces(io) ? make_events(c, io) : DL_OK;
}

void gpu_io_free(const Cuda *cuda, GpuIo *io)
{
	if (io->mem.at)
		cuda->cuMemFree_v2(io->mem.at);
	if (io->pinned.at)
		cuda->cuMemFreeHost(io->pinned.at);
	for (int k = 0; k < GPU_PIECES; k++)
		if (io->arrived[k])
			cuda->cuEventDestroy_v2(io->arrived[k]);
}

/* ---- Copies ---- */

/* Copies the pieces from the caller's memory; DMA: and puts their transfer to the GPU into the
 * stream. */
static int send_pieces(dl_context *c, GpuIo *io, bool dma)
{
	const Cuda *cuda = c->model->gpu->cuda;
	int rc = 0;

	for (uint64_t at = 0, n; at < io->bytes && !rc; at += n) {
		n = piece_at(io, at);
		memcpy(io->pinned.at + at, (const char *)io->host + at, n);
		if (dma)
			rc = cuda->cuMemcpyHtoDAsync_v2(io->mem.at + at, io->pinned.at + at, n,
							c->gpu->stream);
	}
	return rc;
}

int gpu_send(dl_context *c, GpuIo *io, const char *name, bool in_graph)
{
	int rc = 0;

	if (io->host && io->bytes) {
		c->gpu->waits = true; /* the pinned memory is in use until the run is over */
		rc = send_pieces(c, io, !in_graph || gpu_in_pieces(io));
	} else if (io->device && io->bytes) {
		rc = c->model->gpu->cuda->cuMemcpyDtoDAsync_v2(
			io->mem.at, (CUdeviceptr)(uintptr_t)io->device, io->bytes, c->gpu->stream);
	}
	return rc ? gpu_fail(c, rc, name) : DL_OK;
}

static int bring_pieces(dl_context *c, GpuIo *io)
{
	const Cuda *cuda = c->model->gpu->cuda;
	int rc = 0, k = 0;

	for (uint64_t at = 0, n; at < io->bytes && !rc; at += n) {
		n = piece_at(io, at);
		rc = cuda->cuMemcpyDtoHAsync_v2(io->pinned.at + at, io->mem.at + at, n,
						c->gpu->stream);
		if (!rc && gpu_in_pieces(io))
			rc = cuda->cuEventRecord(io->arrived[k++], c->gpu->stream);
	}
	return rc;
}

int gpu_bring(dl_context *c, GpuIo *io, bool in_graph)
{
	int rc = 0;

	if (io->host && io->bytes) {
		c->gpu->waits = true;
		rc = in_graph && !gpu_in_pieces(io) ? 0 : bring_pieces(c, io);
	} else if (io->device && io->bytes) {
		rc = c->model->gpu->cuda->cuMemcpyDtoDAsync_v2(
			(CUdeviceptr)(uintptr_t)io->device, io->mem.at, io->bytes, c->gpu->stream);
	}
	return rc ? gpu_fail_by_now(c, rc) : DL_OK;
}

int gpu_take_pieces(dl_context *c, const GpuIo *io)
{
	int rc = 0, k = 0;

	if (!io->host || !gpu_in_pieces(io))
		return DL_OK;
	for (uint64_t at = 0, n; at < io->bytes && !rc; at += n) {
		n = piece_at(io, at);
		rc = c->model->gpu->cuda->cuEventSynchronize(io->arrived[k++]);
		if (!rc)
			memcpy((char *)io->host + at, io->pinned.at + at, n);
	}
	return rc ? gpu_fail_by_now(c, rc) : DL_OK;
}

void gpu_take(const GpuIo *io)
{
	if (io->host && io->bytes && !gpu_in_pieces(io))
		memcpy(io->host, io->pinned.at, io->bytes);
}
