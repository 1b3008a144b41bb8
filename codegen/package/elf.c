/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/package/elf.h"

#include "base/sys.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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
	return (at + PAGE - 1) / PAGE * PAGE;
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
