/* SPDX-License-Identifier: Apache-2.0 */
/* Text that comes from a model, in the forms that the compiler's outputs need; runtime/escape.h says what a form is, and has
 * those of terminals and of JSON. strbuf_escape and arena_escape (base/str.h) apply one. A format string has no form: text
 * from a model is an argument of one, never a part. */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include "runtime/escape.h"

/* For a string of the IR's text, within its quotes: \" \\ \n \t \xHH. */
size_t escape_quoted(const char **s, char *out);
/* For a string literal of C, within its quotes. */
size_t escape_c_string(const char **s, char *out);
/* For a comment of C between slash-star and star-slash: neither ends it, nor begins another. */
size_t escape_c_comment(const char **s, char *out);
/* For a comment to the line's end in PTX, where ptxas takes ASCII alone, or in LLVM IR. */
size_t escape_line_comment(const char **s, char *out);
/* For the name of a file in a folder: %HH for what no such name may hold, and for %. */
size_t escape_file_name(const char **s, char *out);
/* For a string of the assembler within a string literal of C. */
size_t escape_assembler(const char **s, char *out);

#endif
