/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/model.h"

#include "base/sys.h"
#include "frontend/names.h"
#include "ir/ctx.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void *arena_alloc_cb(void *arena, size_t n)
{
	return arena_alloc(arena, n);
}

static void arena_free_cb(void *arena, void *p)
{
	(void)arena;
	(void)p;
}

/* Maps PATH; messages name it SHOWN, or "the file" if it is LOC's file. */
static bool map_file(Diag *d, DiagLoc loc, const char *path, const char *shown, MappedFile *m)
{
	struct stat st;
	const int fd = open_regular(path, &st);
	void *p;

	if (fd < 0 && errno == EBADMSG)
		return diag_error(d, loc, "%s " LFS_POINTER, shown);
	if (fd < 0 && (errno == EINVAL || errno == EISDIR))
		return diag_error(d, loc, "%s is not a regular file", shown);
	if (fd < 0)
		return diag_error(d, loc, "cannot open %s: %s", shown, strerror(errno));
	m->size = (size_t)st.st_size;
	m->dev = st.st_dev;
	m->ino = st.st_ino;
	m->bytes = NULL;
	if (m->size) {
		p = mmap(NULL, m->size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED) {
			close(fd);
			return diag_error(d, loc, "cannot map %s: %s", shown, strerror(errno));
		}
		m->bytes = p;
	}
	close(fd);
	return true;
}

static void unmap_file(MappedFile *m)
{
	if (m->bytes)
		munmap((void *)(uintptr_t)m->bytes, m->size);
	m->bytes = NULL;
}

static bool decode(OnnxFile *f, const uint8_t *bytes, size_t n,
		   const ProtobufCMessageDescriptor *root)
{
	ProtobufCAllocator al = {arena_alloc_cb, arena_free_cb, f->arena};
	DiagLoc loc = {.file = f->path};
	STRBUF_LOCAL(compact);
	bool ok;

	if (!n)
		return diag_error(f->diag, loc, "the file is empty; was the download cut short?");
	f->bytes = bytes;
	ok = wire_compact(f->arena, f->diag, f->path, root, bytes, n, &compact, &f->ranges);
	if (ok) {
		f->message = protobuf_c_message_unpack(root, &al, compact.n,
						       (const uint8_t *)strbuf_str(&compact));
		ok = f->message || diag_error(f->diag, loc,
					      "not a valid ONNX file: %s does not "
					      "decode",
					      root->short_name);
	}
	if (ok && root == &onnx__model_proto__descriptor) {
		f->model = (Onnx__ModelProto *)f->message;
		if (!f->model->graph)
			return diag_error(f->diag, loc,
					  "the file holds no graph; "
					  "is it an ONNX model?");
		onnx_name_nodes(f->arena, f->model);
	}
	return ok;
}

static OnnxFile *file_new(Diag *d, const char *path)
{
	Arena *a = arena_new();
	OnnxFile *f = NEW(a, OnnxFile);

	f->arena = a;
	f->diag = d;
	f->path = arena_strdup(a, path);
	f->strings = strings_in(a);
	return f;
}

OnnxFile *onnx_open_bytes(Diag *d, const char *path, const void *bytes, size_t n,
			  const ProtobufCMessageDescriptor *root)
{
	OnnxFile *f = file_new(d, path);

	if (decode(f, bytes, n, root))
		return f;
	onnx_close(f);
	return NULL;
}

OnnxFile *onnx_open_as(Diag *d, const char *path, const ProtobufCMessageDescriptor *root)
{
	OnnxFile *f = file_new(d, path);

	f->map.path = f->path;
	if (map_file(d, (DiagLoc){.file = f->path}, path, "the file", &f->map) &&
	    decode(f, f->map.bytes, f->map.size, root))
		return f;
	onnx_close(f);
	return NULL;
}

OnnxFile *onnx_open(Diag *d, const char *path)
{
	return onnx_open_as(d, path, &onnx__model_proto__descriptor);
}

void onnx_close(OnnxFile *f)
{
	if (!f)
		return;
	for (int i = 0; i < f->external.n; i++)
		unmap_file(f->external.at[i]);
	unmap_file(&f->map);
	arena_free(f->arena);
}

/* Whether S is neither empty nor an absolute path and has no `..` component. */
static bool location_safe(const char *s)
{
	if (!*s || *s == '/')
		return false;
	for (const char *p = s; p; p = strchr(p, '/')) {
		p += *p == '/';
		if (p[0] == '.' && p[1] == '.' && (!p[2] || p[2] == '/'))
			return false;
	}
	return true;
}

/* The folder of PATH, with symbolic links resolved; malloc'ed. Null if it does not exist. */
static char *real_folder(Arena *a, const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return realpath(".", NULL);
	return realpath(arena_strndup(a, path, (size_t)(slash - path) + 1), NULL);
}

static bool beneath(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	if (n == 1) /* the root */
		return true;
	return !strncmp(path, folder, n) && path[n] == '/';
}

/* The resolved path of LOCATION, if it is in one of the two folders; malloc'ed. */
static char *find_external(OnnxFile *f, const char *location, bool *outside)
{
	char *real = realpath(f->path, NULL);
	char *folder[2] = {real_folder(f->arena, f->path), NULL};
	char *found = NULL;

	*outside = false;
	if (real)
		folder[1] = real_folder(f->arena, real);
	for (int i = 0; i < 2 && !found; i++) {
		char *p = folder[i] ? realpath(arena_printf(f->arena, "%s/%s", folder[i], location),
					       NULL)
				    : NULL;

		if (!p)
			continue;
		for (int k = 0; k < 2; k++)
			if (folder[k] && beneath(p, folder[k]))
				found = p;
		if (found != p) {
			*outside = true;
			free(p);
		}
	}
	free(real);
	free(folder[0]);
	free(folder[1]);
	return found;
}

/* As onnx_external, of a file that is not in F's lists. */
static const MappedFile *open_external(OnnxFile *f, const char *location, DiagLoc loc)
{
	MappedFile m = {0}, *keep;
	bool outside;
	char *path;

	if (!*location) {
		diag_error(f->diag, loc, "external data has an empty location; it names no file");
		return NULL;
	}
	if (!location_safe(location)) {
		diag_error(f->diag, loc,
			   "external data at \"%s\": only files in the model's folder "
			   "are read; put it there and name it without \"..\" or a leading \"/\"",
			   location);
		return NULL;
	}
	path = find_external(f, location, &outside);
	if (!path) {
		if (outside)
			diag_error(f->diag, loc,
				   "external data at \"%s\" is a link that leads out "
				   "of the model's folder; copy the file there",
				   location);
		else
			diag_error(f->diag, loc,
				   "external data at \"%s\": no such file beside the "
				   "model; download it too",
				   location);
		return NULL;
	}
	if (!map_file(f->diag, loc, path, arena_printf(f->arena, "\"%s\"", location), &m)) {
		free(path);
		return NULL;
	}
	m.real = arena_strdup(f->arena, path);
	free(path);
	for (int i = 0; i < f->external.n; i++)
		if (f->external.at[i]->dev == m.dev && f->external.at[i]->ino == m.ino) {
			unmap_file(&m);
			return f->external.at[i];
		}
	keep = NEW(f->arena, MappedFile);
	*keep = m;
	keep->path = arena_strdup(f->arena, location);
	vec_push(f->arena, &f->external, keep);
	return keep;
}

const MappedFile *onnx_external(OnnxFile *f, const char *location, DiagLoc loc)
{
	const MappedFile *m;

	for (int i = 0; i < f->external.n; i++)
		if (!strcmp(f->external.at[i]->path, location))
			return f->external.at[i];
	for (int i = 0; i < f->missing.n; i++)
		if (!strcmp(f->missing.at[i], location))
			return NULL;
	m = open_external(f, location, loc);
	if (!m)
		vec_push(f->arena, &f->missing, arena_strdup(f->arena, location));
	return m;
}
