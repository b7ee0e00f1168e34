# SPDX-License-Identifier: Apache-2.0
"""The types of a launch's tables and state in LLVM IR, and functions that read them.

The tables are those of :file:`src/runtime/launch/program.h`.
"""

LINE = 128  # bytes from one column's word to the next: two cache lines, which are fetched together

ACCESS = f"""
; Version, columns, the argument of records or -1, nothing; first parts of columns, parts, units,
; waits, barriers, functions, the history of calls.
%Program = type {{ i32, i32, i32, i32, ptr, ptr, ptr, ptr, ptr, ptr, ptr }}
; First unit, units, first wait, waits, barrier or -1, whether it is a chain.
%Part = type {{ i32, i32, i32, i32, i32, i32 }}
; Function, begin, end, what is read next.
%Unit = type {{ i32, i32, i32, i32 }}
; Begin and end in nanoseconds, the thread's home column.
%Record = type {{ i64, i64, i64 }}

define internal ptr @tvm_ios_word(ptr %state, i32 %column) alwaysinline {{
  %offset = mul i32 %column, {LINE}
  %word = getelementptr i8, ptr %state, i32 %offset
  ret ptr %word
}}

; Columns that are not completed, behind the words, and the first error.
define internal ptr @tvm_ios_unfinished(ptr %program, ptr %state) alwaysinline {{
  %size = getelementptr %Program, ptr %program, i32 0, i32 1
  %columns = load i32, ptr %size
  %place = call ptr @tvm_ios_word(ptr %state, i32 %columns)
  ret ptr %place
}}

define internal ptr @tvm_ios_error(ptr %program, ptr %state) alwaysinline {{
  %unfinished = call ptr @tvm_ios_unfinished(ptr %program, ptr %state)
  %place = getelementptr i32, ptr %unfinished, i32 1
  ret ptr %place
}}

define internal i32 @tvm_ios_completed(ptr %state, i32 %column) alwaysinline {{
  %place = call ptr @tvm_ios_word(ptr %state, i32 %column)
  %word = load atomic i64, ptr %place acquire, align 8
  %high = lshr i64 %word, 32
  %part = trunc i64 %high to i32
  ret i32 %part
}}

define internal ptr @tvm_ios_table(ptr %program, i32 %number) alwaysinline {{
  %tables = getelementptr %Program, ptr %program, i32 0, i32 4
  %place = getelementptr ptr, ptr %tables, i32 %number
  %table = load ptr, ptr %place
  ret ptr %table
}}

define internal i32 @tvm_ios_number(ptr %numbers, i32 %index) alwaysinline {{
  %place = getelementptr i32, ptr %numbers, i32 %index
  %number = load i32, ptr %place
  ret i32 %number
}}

define internal i32 @tvm_ios_num_parts(ptr %program, i32 %column) alwaysinline {{
  %first = call ptr @tvm_ios_table(ptr %program, i32 0)
  %begin = call i32 @tvm_ios_number(ptr %first, i32 %column)
  %following = add i32 %column, 1
  %end = call i32 @tvm_ios_number(ptr %first, i32 %following)
  %count = sub i32 %end, %begin
  ret i32 %count
}}

define internal ptr @tvm_ios_part(ptr %program, i32 %column, i32 %index) alwaysinline {{
  %first = call ptr @tvm_ios_table(ptr %program, i32 0)
  %begin = call i32 @tvm_ios_number(ptr %first, i32 %column)
  %number = add i32 %begin, %index
  %parts = call ptr @tvm_ios_table(ptr %program, i32 1)
  %part = getelementptr %Part, ptr %parts, i32 %number
  ret ptr %part
}}
"""
