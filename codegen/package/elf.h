/* SPDX-License-Identifier: Apache-2.0 */
/* ELF files, without the tools that belong to a C compiler. A section is appended to a linked file:
 * page-aligned, not allocated, and at the end, so weights of any size need no linker and no
 * relocation. Symbols of an object become local, and an object becomes an archive. */
#ifndef CODEGEN_PACKAGE_ELF_H
#define CODEGEN_PACKAGE_ELF_H

#include <stdbool.h>
#include <stdint.h>

/* The machine (EM_*) of the ELF file at PATH; -1 if it is not an ELF file. */
int elf_machine(const char *path);
/* The offset AT, rounded up to one at which the contents of a section may begin. */
int64_t elf_align(int64_t at);
/* The offset at which the contents of a section appended to FD must begin; -1 if FD is not a 64-bit
 * little-endian ELF file. */
int64_t elf_section_at(int fd);
/* Makes the SIZE bytes at AT (from elf_section_at, or after it) section NAME, by writing a new
 * section table after them. */
bool elf_add_section(int fd, const char *name, int64_t at, int64_t size);
/* Makes all symbols that the object PATH defines local, except for the N NAMES, so that objects
 * with the same symbols can be linked together. False, with errno, if it is not a 64-bit
 * little-endian object, or cannot be written. */
bool elf_make_local(const char *path, const char *const *names, int n);
/* Writes the archive OUT, whose only member is the object PATH, called MEMBER there (at most 15
 * bytes), which defines the N NAMES. False, with errno, if that fails. */
bool elf_archive(const char *out, const char *path, const char *member, const char *const *names,
		 int n);

#endif
