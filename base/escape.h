/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that comes from a model, in the forms that the compiler's outputs need. runtime/escape.h says what a form is, and has the
 * forms for terminals and for JSON. strbuf_escape and arena_escape (base/str.h) apply a form. There is no form for format
 * strings: text from a model is an argument of a format, never a part of it.
 */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include "runtime/escape.h"

/* For a string of the IR's text, within its quotes: \" \\ \n \t \xHH. */
size_t escape_quoted(const char **s, char *out);
/* For a string literal of C, within its quotes. */
size_t escape_c_string(const char **s, char *out);
/* For a comment of C between slash-star and star-slash: the text neither ends the comment nor begins another. */
size_t escape_c_comment(const char **s, char *out);
/* For a comment that ends with its line, in PTX or in LLVM IR. It is ASCII, since ptxas takes nothing else. */
size_t escape_line_comment(const char **s, char *out);
/* For the name of a file in a folder: %HH for a slash, for % and for what does not print. */
size_t escape_file_name(const char **s, char *out);
/* For a string of the assembler that is written within a string literal of C. */
size_t escape_assembler(const char **s, char *out);

#endif
