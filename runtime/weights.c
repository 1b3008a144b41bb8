/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the weights: given by the caller, inside the code, in section .dlcc.weights of the
 * artifact's own file, or in a file in the folder of the artifact or of the program. Files are
 * mapped read-only and never copied. The section is not allocated, so the loader does not map it;
 * it is found through the file's section table. It is part of the artifact, so by default only its
 * size is checked. Weights from elsewhere are checked by their hash.
 *
 * If somebody truncates or overwrites a mapped file, its pages are lost or change, and reading them
 * may end the process with SIGBUS. No check at load can prevent that, so dlrt.h forbids it.
 */
#include "runtime/rt.h"
#include "runtime/hash.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTION ".dlcc.weights"

/* Replaces \012, a line break in a path of /proc/self/maps, by the character. */
static void read_breaks(char *path)
{
	char *to = path;

	for (const char *s = path; *s; to++) {
		const bool line_break = !strncmp(s, "\\012", 4);

		*to = line_break ? '\n' : *s;
		s += line_break ? 4 : 1;
	}
	*to = '\0';
}

/* The absolute path of the file that address at is mapped from, according to /proc/self/maps.
 * dladdr would return the path that dlopen was given, which a later chdir makes wrong. */
static bool path_from_maps(const void *at, char *path, size_t room)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		unsigned long long lo, hi;
		char *name = strchr(line, '/'), *end = strchr(line, '\n');

		if (!name || !end || sscanf(line, "%llx-%llx", &lo, &hi) != 2)
			continue;
		*end = '\0';
		found = (uintptr_t)at >= lo && (uintptr_t)at < hi && strlen(name) < room;
		if (found)
			strcpy(path, name);
		if (found && access(path, F_OK))
			read_breaks(path);
	}
	if (f)
		fclose(f);
	return found;
}

static int own_path(dl_model *m, char *path, size_t room)
{
	Dl_info info;

	if (path_from_maps(m->desc, path, room))
		return DL_OK;
	if (dladdr(m->desc, &info) && info.dli_fname && strlen(info.dli_fname) < room) {
		strcpy(path, info.dli_fname);
		return DL_OK;
	}
	return rt_error(m, DL_WEIGHTS,
			"%s: the file that holds the model cannot be found; give its "
			"weights in the load options",
			m->desc->name);
}

static int open_file(dl_model *m, const char *path, int *fd, uint64_t *bytes)
{
	struct stat st;

	*fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		return rt_error(m, DL_WEIGHTS, "%s: %s", path, strerror(errno));
	if (fstat(*fd, &st) || !S_ISREG(st.st_mode)) {
		close(*fd);
		return rt_error(m, DL_WEIGHTS, "%s: not a regular file", path);
	}
	*bytes = (uint64_t)st.st_size;
	return DL_OK;
}

/* Maps the weights, at offset of fd. */
static int map(dl_model *m, int fd, const char *path, uint64_t offset)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skip = offset % page;
	const uint64_t bytes = m->desc->weights_size + skip;
	void *p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, (off_t)(offset - skip));

	if (p == MAP_FAILED)
		return rt_error(m, DL_WEIGHTS, "%s: cannot be mapped: %s", path, strerror(errno));
	m->weights.map = p;
	m->weights.map_bytes = bytes;
	m->weights.base = (char *)p + skip;
	if (skip % RT_ALIGN)
		return rt_error(m, DL_WEIGHTS, "%s: weights are at offset %llu, which is not aligned",
				path, (unsigned long long)offset);
	return DL_OK;
}

static bool read_at(int fd, void *p, uint64_t n, uint64_t at)
{
	return pread(fd, p, n, (off_t)at) == (ssize_t)n;
}

/* Finds the section; false if the file is not an ELF file or has no such section. */
static bool find_section(int fd, uint64_t *offset, uint64_t *bytes)
{
	Elf64_Ehdr eh;
	Elf64_Shdr names, sh;
	char name[sizeof(SECTION)];

	if (!read_at(fd, &eh, sizeof(eh), 0) || memcmp(eh.e_ident, ELFMAG, SELFMAG) ||
	    eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_shentsize != sizeof(sh) ||
	    !read_at(fd, &names, sizeof(names), eh.e_shoff + eh.e_shstrndx * sizeof(sh)))
		return false;
	for (unsigned i = 1; i < eh.e_shnum; i++) {
		if (!read_at(fd, &sh, sizeof(sh), eh.e_shoff + i * sizeof(sh)))
			return false;
		if (sh.sh_type == SHT_NOBITS ||
		    !read_at(fd, name, sizeof(name), names.sh_offset + sh.sh_name) ||
		    memcmp(name, SECTION, sizeof(name)))
			continue;
		*offset = sh.sh_offset;
		*bytes = sh.sh_size;
		return true;
	}
	return false;
}

static int open_section(dl_model *m)
{
	const uint64_t want = m->desc->weights_size;
	char path[PATH_MAX];
	uint64_t file_bytes, offset, bytes;
	int fd, rc = own_path(m, path, sizeof(path));

	if (!rc)
		rc = open_file(m, path, &fd, &file_bytes);
	if (rc)
		return rc;
	if (!find_section(fd, &offset, &bytes))
		rc = rt_error(m, DL_WEIGHTS,
			      "%s: no section " SECTION " for the weights of %s; was the "
			      "file stripped by llvm-strip --strip-all, or replaced?",
			      path, m->desc->name);
	else if (bytes != want || offset > file_bytes || bytes > file_bytes - offset)
		rc = rt_error(m, DL_WEIGHTS,
			      "%s: section " SECTION " has %llu bytes and not %llu: the "
			      "file was cut or replaced",
			      path, (unsigned long long)bytes, (unsigned long long)want);
	else
		rc = map(m, fd, path, offset);
	close(fd);
	return rc;
}

static int open_path(dl_model *m, const char *path)
{
	const uint64_t want = m->desc->weights_size;
	uint64_t bytes;
	int fd, rc = open_file(m, path, &fd, &bytes);

	if (rc)
		return rc;
	if (bytes != want)
		rc = rt_error(m, DL_WEIGHTS, "%s: has %llu bytes, and the weights of %s have %llu",
			      path, (unsigned long long)bytes, m->desc->name,
			      (unsigned long long)want);
	else
		rc = map(m, fd, path, 0);
	close(fd);
	return rc;
}

/* Replaces the file name in PATH by weights_file. False if the path is too long. */
static bool beside(const dl_model *m, char *path, size_t room)
{
	const char *name = m->prog->weights_file;
	char *slash = strrchr(path, '/');

	slash = slash ? slash + 1 : path;
	if (strlen(name) >= room - (size_t)(slash - path))
		return false;
	strcpy(slash, name);
	return true;
}

/* Opens weights_file in the folder of the artifact's own file, or else of the program. */
static int open_beside(dl_model *m)
{
	char path[PATH_MAX], other[PATH_MAX];
	ssize_t n;
	int rc = own_path(m, path, sizeof(path));

	if (rc)
		return rc;
	if (!beside(m, path, sizeof(path)))
		return rt_error(m, DL_WEIGHTS, "%s: path too long", m->prog->weights_file);
	n = readlink("/proc/self/exe", other, sizeof(other) - 1);
	other[n > 0 ? n : 0] = '\0';
	if (!access(path, F_OK) || n <= 0 || !beside(m, other, sizeof(other)) ||
	    !strcmp(path, other))
		return open_path(m, path);
	if (!access(other, F_OK))
		return open_path(m, other);
	return rt_error(
		m, DL_WEIGHTS,
		"the weights are neither %.180s (beside the model's code) nor %.180s "
		"(beside the program); put them there, or give weights_path (dlrun --weights)",
		path, other);
}

static int read_through(dl_model *m)
{
	const uint64_t n = m->desc->weights_size;

	m->weights.owned = rt_alloc(m, n);
	if (!m->weights.owned)
		return rt_error(m, DL_NOMEM, "no memory for %llu bytes of weights",
				(unsigned long long)n);
	m->weights.base = m->weights.owned;
	if (m->opt.weights(m->opt.user, m->weights.owned, 0, n))
		return rt_error(m, DL_WEIGHTS, "the caller's reader of weights failed");
	return DL_OK;
}

static int check(dl_model *m)
{
	const dl_program *p = m->prog;

	if (dl_hash_bytes(m->weights.base, m->desc->weights_size) == p->weights_hash)
		return DL_OK;
	return rt_error(m, DL_WEIGHTS, "these are not the weights that %s was compiled with (%s)",
			m->desc->name, m->desc->hash);
}

/* The address without const; the data is never written. */
static char *borrow(const void *p)
{
	return (char *)(uintptr_t)p;
}

int rt_weights_open(dl_model *m)
{
	const dl_program *p = m->prog;
	bool own = false;
	int rc = DL_OK;

	if (!m->desc->weights_size || p->weights_kind == DL_WEIGHTS_NONE)
		return DL_OK;
	if (m->opt.weights_data) {
		m->weights.base = borrow(m->opt.weights_data);
		if ((uintptr_t)m->weights.base % RT_ALIGN)
			rc = rt_error(m, DL_INVALID, "weights_data is not aligned to 64");
	} else if (m->opt.weights) {
		rc = read_through(m);
	} else if (m->opt.weights_path) {
		rc = open_path(m, m->opt.weights_path);
	} else if (p->weights_kind == DL_WEIGHTS_EMBEDDED) {
		own = true;
		m->weights.base = borrow(p->weights);
	} else if (p->weights_kind == DL_WEIGHTS_SECTION) {
		own = true;
		rc = open_section(m);
	} else {
		rc = open_beside(m);
	}
	if (rc || (own && !(m->opt.flags & DL_LOAD_CHECK_WEIGHTS)))
		return rc;
	return check(m);
}

void rt_weights_close(dl_model *m)
{
	if (m->weights.map)
		munmap(m->weights.map, m->weights.map_bytes);
	rt_free(m, m->weights.owned, m->desc->weights_size);
	m->weights = (Weights){0};
}
