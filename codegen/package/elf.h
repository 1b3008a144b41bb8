/* SPDX-License-Identifier: Apache-2.0 */
/* Appends a section to a linked ELF file: page-aligned, not allocated, and at the end. So weights
 * of any size need no linker and no relocation. */
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

#endif
