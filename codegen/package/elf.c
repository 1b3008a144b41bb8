/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/package/elf.h"

#include "base/round.h"
#include "base/str.h"
#include "base/sys.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096 };

static bool read_header(int fd, Elf64_Ehdr *h)
{
	return pread(fd, h, sizeof *h, 0) == (ssize_t)sizeof *h &&
	       !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
	       h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_shentsize == sizeof(Elf64_Shdr) &&
	       h->e_shnum && h->e_shstrndx < h->e_shnum;
}

int elf_machine(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), machine = -1;
	Elf64_Ehdr h;

	if (fd >= 0 && read_header(fd, &h))
		machine = h.e_machine;
	if (fd >= 0)
		close(fd);
	return machine;
}

int64_t elf_align(int64_t at)
{
	return round_up(at, PAGE);
}

int64_t elf_section_at(int fd)
{
	Elf64_Ehdr h;
	off_t end = lseek(fd, 0, SEEK_END);

	if (end < 0 || !read_header(fd, &h))
		return -1;
	return elf_align(end);
}

bool elf_add_section(int fd, const char *name, int64_t at, int64_t size)
{
	Elf64_Ehdr h;
	Elf64_Shdr *sh, *str;
	size_t n, len = strlen(name) + 1;
	int64_t end = (at + size + 7) / 8 * 8;
	char *names;
	bool ok;

	if (!read_header(fd, &h))
		return false;
	n = h.e_shnum;
	sh = calloc(n + 1, sizeof *sh);
	if (!sh || pread(fd, sh, n * sizeof *sh, (off_t)h.e_shoff) != (ssize_t)(n * sizeof *sh)) {
		free(sh);
		return false;
	}
	str = &sh[h.e_shstrndx];
	names = calloc(1, str->sh_size + len);
	ok = names &&
	     pread(fd, names, str->sh_size, (off_t)str->sh_offset) == (ssize_t)str->sh_size;
	if (ok) {
		memcpy(names + str->sh_size, name, len);
		sh[n] = (Elf64_Shdr){.sh_name = (Elf64_Word)str->sh_size,
				     .sh_type = SHT_PROGBITS,
				     .sh_offset = (Elf64_Off)at,
				     .sh_size = (Elf64_Xword)size,
				     .sh_addralign = PAGE};
		str->sh_offset = (Elf64_Off)end;
		str->sh_size += len;
		h.e_shoff = (Elf64_Off)((end + (int64_t)str->sh_size + 7) / 8 * 8);
		h.e_shnum = (Elf64_Half)(n + 1);
		ok = pwrite(fd, names, str->sh_size, end) == (ssize_t)str->sh_size &&
		     pwrite(fd, sh, (n + 1) * sizeof *sh, (off_t)h.e_shoff) ==
			     (ssize_t)((n + 1) * sizeof *sh) &&
		     pwrite(fd, &h, sizeof h, 0) == (ssize_t)sizeof h;
	}
	free(names);
	free(sh);
	return ok;
}

/* ---- Objects ---- */

/* A mapped object. */
typedef struct ElfFile {
	uint8_t *p;
	size_t size;
	Elf64_Shdr *sh;
	size_t n;      /* sections */
	size_t symtab; /* the number of its table of symbols */
} ElfFile;

/* Whether N items of EACH bytes at AT lie in the file, aligned to 8. */
static bool holds(const ElfFile *f, uint64_t at, uint64_t n, uint64_t each)
{
	return at % 8 == 0 && at <= f->size && n <= (f->size - at) / each;
}

/* Finds the table of symbols. */
static bool find_symbols(ElfFile *f)
{
	const Elf64_Ehdr *h = (const void *)f->p;

	if (!holds(f, h->e_shoff, h->e_shnum, sizeof *f->sh))
		return false;
	f->sh = (void *)(f->p + h->e_shoff);
	f->n = h->e_shnum;
	for (f->symtab = 0; f->symtab < f->n && f->sh[f->symtab].sh_type != SHT_SYMTAB;)
		f->symtab++;
	return f->symtab < f->n && f->sh[f->symtab].sh_link < f->n &&
	       holds(f, f->sh[f->symtab].sh_offset, f->sh[f->symtab].sh_size, 1);
}

/* Maps the object PATH; false, with errno, if it is not an object. */
static bool map_object(ElfFile *f, const char *path)
{
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;
	Elf64_Ehdr h;

	*f = (ElfFile){0};
	if (fd < 0)
		return false;
	errno = ENOEXEC;
	if (read_header(fd, &h) && h.e_type == ET_REL && !fstat(fd, &st)) {
		f->size = (size_t)st.st_size;
		f->p = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		f->p = f->p == MAP_FAILED ? NULL : f->p;
	}
	close(fd);
	if (!f->p)
		return false;
	errno = ENOEXEC;
	if (find_symbols(f))
		return true;
	munmap(f->p, f->size);
	return false;
}

static bool stays_global(const ElfFile *f, const Elf64_Sym *s, const char *const *names, int n)
{
	const Elf64_Shdr *strings = &f->sh[f->sh[f->symtab].sh_link];
	const char *name = (const char *)f->p + strings->sh_offset + s->st_name;

	if (s->st_shndx == SHN_UNDEF)
		return true;
	for (int i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Orders the symbols, local ones first as ELF wants it; TO[i]: the new number of symbol i. Returns
 * the number of local ones. */
static uint32_t order_symbols(const ElfFile *f, Elf64_Sym *sym, uint32_t n, uint32_t *to,
			      const char *const *names, int keep)
{
	uint32_t local = 0, at = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (i && ELF64_ST_BIND(sym[i].st_info) != STB_LOCAL &&
		    !stays_global(f, &sym[i], names, keep))
			sym[i].st_info = (unsigned char)ELF64_ST_INFO(
				STB_LOCAL, ELF64_ST_TYPE(sym[i].st_info));
		local += ELF64_ST_BIND(sym[i].st_info) == STB_LOCAL;
	}
	for (uint32_t i = 0, global = local; i < n; i++)
		to[i] = ELF64_ST_BIND(sym[i].st_info) == STB_LOCAL ? at++ : global++;
	return local;
}

/* Moves each of N items of EACH bytes at P to its place TO. */
static bool permute(void *p, uint32_t n, size_t each, const uint32_t *to)
{
	char *copy = malloc(n * each + 1);

	if (!copy)
		return false;
	memcpy(copy, p, n * each);
	for (uint32_t i = 0; i < n; i++)
		memcpy((char *)p + to[i] * each, copy + i * each, each);
	free(copy);
	return true;
}

/* Makes section S, if it refers to symbols by number, refer to their new numbers TO. */
static bool renumber(const ElfFile *f, Elf64_Shdr *s, uint32_t n, const uint32_t *to)
{
	enum {
		ADDRSIG = 0x6fff4c03
	}; /* a list for linkers that merge functions, which they may lack */
	const uint64_t each = s->sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
	uint8_t *p = f->p + s->sh_offset;

	if (s->sh_link != f->symtab)
		return true;
	if (s->sh_type == ADDRSIG)
		s->sh_type = SHT_NULL;
	if (s->sh_type == SHT_GROUP && s->sh_info < n)
		s->sh_info = to[s->sh_info];
	if (s->sh_type == SHT_SYMTAB_SHNDX)
		return holds(f, s->sh_offset, n, 4) && permute(p, n, 4, to);
	if (s->sh_type != SHT_RELA && s->sh_type != SHT_REL)
		return true;
	if (!holds(f, s->sh_offset, s->sh_size, 1))
		return false;
	for (uint64_t at = 0; at + each <= s->sh_size; at += each) {
		Elf64_Rel *r = (void *)(p + at); /* Elf64_Rela begins alike */
		const uint64_t symbol = ELF64_R_SYM(r->r_info);

		if (symbol >= n)
			return false;
		r->r_info = ELF64_R_INFO((uint64_t)to[symbol], ELF64_R_TYPE(r->r_info));
	}
	return true;
}

bool elf_make_local(const char *path, const char *const *names, int keep)
{
	ElfFile f;
	Elf64_Shdr *table;
	Elf64_Sym *sym;
	uint32_t n, *to;
	bool ok;

	if (!map_object(&f, path))
		return false;
	table = &f.sh[f.symtab];
	sym = (void *)(f.p + table->sh_offset);
	n = (uint32_t)(table->sh_size / sizeof *sym);
	to = malloc((n + 1) * sizeof *to);
	ok = to != NULL;
	if (ok)
		table->sh_info = order_symbols(&f, sym, n, to, names, keep);
	ok = ok && permute(sym, n, sizeof *sym, to);
	for (size_t i = 0; ok && i < f.n; i++)
		ok = renumber(&f, &f.sh[i], n, to);
	free(to);
	munmap(f.p, f.size);
	return ok;
}

/* The head of a member of an archive; the same whoever writes it, and when. */
static void put_member(StrBuf *b, const char *name, uint64_t bytes)
{
	strbuf_printf(b, "%-16s%-12d%-6d%-6d%-8o%-10llu`\n", name, 0, 0, 0, 0644,
		      (unsigned long long)bytes);
}

static void put_big_endian(StrBuf *b, uint32_t v)
{
	const char bytes[] = {(char)(v >> 24), (char)(v >> 16), (char)(v >> 8), (char)v};

	strbuf_put(b, bytes, sizeof bytes);
}

bool elf_archive(const char *out, const char *path, const char *member, const char *const *names,
		 int n)
{
	static const char magic[] = "!<arch>\n";
	StrBuf index = {0}, head = {0};
	char name[17];
	size_t strings = 0;
	uint32_t at;
	ElfFile f;
	int fd;
	bool ok;

	if (!map_object(&f, path))
		return false;
	for (int i = 0; i < n; i++)
		strings += strlen(names[i]) + 1;
	/* the index says at which offset the member begins that defines a symbol */
	at = (uint32_t)(sizeof magic - 1 + 60 + (4 + 4 * (size_t)n + strings + 1) / 2 * 2);
	put_big_endian(&index, (uint32_t)n);
	for (int i = 0; i < n; i++)
		put_big_endian(&index, at);
	for (int i = 0; i < n; i++)
		strbuf_put(&index, names[i], strlen(names[i]) + 1);
	if (index.n % 2)
		strbuf_put(&index, "", 1);
	strbuf_puts(&head, magic);
	put_member(&head, "/", index.n);
	strbuf_put(&head, strbuf_str(&index), index.n);
	snprintf(name, sizeof name, "%s/", member);
	put_member(&head, name, f.size);
	fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	ok = fd >= 0 && write_all(fd, strbuf_str(&head), head.n) && write_all(fd, f.p, f.size) &&
	     (f.size % 2 == 0 || write_all(fd, "\n", 1));
	ok = !(fd >= 0 && close(fd)) && ok;
	strbuf_free(&index);
	strbuf_free(&head);
	munmap(f.p, f.size);
	return ok;
}
