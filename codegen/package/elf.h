/* SPDX-License-Identifier: Apache-2.0 */
/* Appends a section to a linked ELF file: page-aligned, not allocated, at the end, so that weights of any size
 * never pass through a linker and need no relocation. */
#ifndef CODEGEN_PACKAGE_ELF_H
#define CODEGEN_PACKAGE_ELF_H

#include <stdbool.h>
#include <stdint.h>

/* The machine that the ELF file at PATH is for (EM_*), -1 where it is none. */
int elf_machine(const char *path);
/* Where the contents of a section appended to FD must go; -1 where FD is no 64-bit little-endian ELF file. */
int64_t elf_section_at(int fd);
/* Makes section NAME of the SIZE bytes that already stand at AT (from elf_section_at), by a new section table
 * behind them. */
bool elf_add_section(int fd, const char *name, int64_t at, int64_t size);

#endif
