/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a compiled model, and finds the function by which a program asks it for its API, for
 * programs that open any model: the library exports NAME_get_api, and only the library knows NAME.
 * This file includes nothing of dlcc.
 */
#ifndef BASE_API_SYMBOL_H
#define BASE_API_SYMBOL_H

#include <dlfcn.h>
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* A file that is mapped. */
typedef struct LibraryFile {
	const char *at;
	uint64_t bytes;
} LibraryFile;

/* Whether the N bytes from AT on are in F, and AT is aligned as tables of ELF are. */
static inline bool library_has(const LibraryFile *f, uint64_t at, uint64_t n)
{
	return at % 8 == 0 && at <= f->bytes && n <= f->bytes - at;
}

/* The symbol in table S of F, whose names are in table T; null: it has none. */
static inline const char *api_symbol_of(const LibraryFile *f, const Elf64_Shdr *s,
					const Elf64_Shdr *t)
{
	static const char suffix[] = "_get_api";
	const size_t m = sizeof(suffix) - 1;
	const Elf64_Sym *symbol = (const void *)(f->at + s->sh_offset);
	const char *names = f->at + t->sh_offset;

	if (!library_has(f, s->sh_offset, s->sh_size) || t->sh_offset > f->bytes ||
	    t->sh_size > f->bytes - t->sh_offset || !t->sh_size || names[t->sh_size - 1])
		return NULL;
	for (uint64_t k = 0; k < s->sh_size / sizeof(*symbol); k++) {
		const char *name = names + (symbol[k].st_name < t->sh_size ? symbol[k].st_name : 0);
		const size_t n = strlen(name);

		if (symbol[k].st_shndx != SHN_UNDEF && n >= m && !strcmp(name + n - m, suffix))
			return name;
	}
	return NULL;
}

/* The symbol NAME_get_api of F, a library; null: it has none. *WHOLE gets the least size of the
 * file if it is complete, since dlcc and linkers put the sections' headers last; 0: it is not a
 * 64-bit ELF file. */
static inline const char *api_symbol_in(const LibraryFile *f, uint64_t *whole)
{
	const Elf64_Ehdr *eh = (const void *)f->at;
	const Elf64_Shdr *sh;
	const char *found = NULL;

	*whole = 0;
	if (f->bytes < sizeof(*eh) || memcmp(eh->e_ident, ELFMAG, SELFMAG) ||
	    eh->e_ident[EI_CLASS] != ELFCLASS64)
		return NULL;
	*whole = eh->e_shoff + (uint64_t)eh->e_shnum * eh->e_shentsize;
	if (eh->e_shentsize != sizeof(*sh) ||
	    !library_has(f, eh->e_shoff, (uint64_t)eh->e_shnum * sizeof(*sh)))
		return NULL;
	sh = (const void *)(f->at + eh->e_shoff);
	for (unsigned i = 0; !found && i < eh->e_shnum; i++)
		if (sh[i].sh_type == SHT_DYNSYM && sh[i].sh_link < eh->e_shnum)
			found = api_symbol_of(f, &sh[i], &sh[sh[i].sh_link]);
	return found;
}

/* The symbol NAME_get_api of the file FD, which the caller frees; null: *WHY says why there is
 * none, until the thread's next call. */
static inline char *api_symbol(int fd, const char **why)
{
	static _Thread_local char cut[112];
	struct stat st;
	LibraryFile f;
	const char *found;
	char *copy;
	uint64_t whole;

	*why = "not a compiled .so; make one: dlcc model.onnx -o model.so";
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return NULL;
	f.bytes = (uint64_t)st.st_size;
	f.at = mmap(NULL, f.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (f.at == MAP_FAILED)
		return NULL;
	found = api_symbol_in(&f, &whole);
	if (f.bytes < whole) { /* dlopen would crash */
		snprintf(cut, sizeof cut,
			 "cut off: it has %llu of %llu bytes; copy or compile it again",
			 (unsigned long long)f.bytes, (unsigned long long)whole);
		*why = cut;
	}
	copy = found ? strdup(found) : NULL;
	munmap((void *)(uintptr_t)f.at, f.bytes);
	return copy;
}

/* Opens the library FD by NAME as *LIBRARY. Returns its function NAME_get_api; null: *WHY says why
 * not. */
static inline void *api_open(int fd, const char *name, void **library, const char **why)
{
	char *symbol = api_symbol(fd, why);
	void *function = NULL;

	*library = symbol ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
	if (*library)
		function = dlsym(*library, symbol);
	if (symbol && !function)
		*why = dlerror();
	free(symbol);
	return function;
}

#endif
