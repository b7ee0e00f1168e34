# SPDX-License-Identifier: Apache-2.0
"""The code by which the threads of a launch share its work: units are claimed, not owned.

The protocol is that of :file:`src/runtime/launch/claims.h`, which runs the same tables with helpers
of its own. This is LLVM IR, which is compiled into each library, so that libraries run with TVM's
runtime alone, on its thread pool. A thread that finds nothing to claim offers its core to others
instead of sleeping.
"""

from __future__ import annotations

import platform
import sys

import tvm

from .launch_state import ACCESS

_CLOCK = 6 if sys.platform == "darwin" else 1  # CLOCK_MONOTONIC
_PATIENCE = 16  # looks at the home column before units of a thread that is present are stolen
_LOOKS = 256  # looks before the core is offered to other threads: some microseconds


def loop_source(target: tvm.target.Target) -> str:
    """Return LLVM IR of ``@tvm_ios_begin``, ``@tvm_ios_work`` and ``@tvm_ios_sequence``."""
    loop = _SOURCE.format(pause=_pause(target), clock=_CLOCK, patience=_PATIENCE, looks=_LOOKS)
    return ACCESS + loop


def _pause(target: tvm.target.Target) -> str:
    """Return the instruction that tells a core that it waits; nothing if it is not known."""
    triple = str(target.attrs.get("mtriple", "")) or platform.machine()
    names = {"x86_64": "pause", "amd64": "pause", "aarch64": "yield", "arm64": "yield"}
    return names.get(triple.split("-")[0].lower(), "")


_SOURCE = """
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)

; Return whether a part may begin.
define internal i1 @tvm_ios_ready(ptr %program, ptr %state, ptr %part) {{
entry:
  %begin = call i32 @tvm_ios_number(ptr %part, i32 2)
  %count = call i32 @tvm_ios_number(ptr %part, i32 3)
  %end = add i32 %begin, %count
  %waits = call ptr @tvm_ios_table(ptr %program, i32 3)
  br label %wait
wait:
  %i = phi i32 [%begin, %entry], [%i_next, %reached]
  %some = icmp slt i32 %i, %end
  br i1 %some, label %look, label %barrier
look:
  %index = shl i32 %i, 1
  %other = call i32 @tvm_ios_number(ptr %waits, i32 %index)
  %index_next = or i32 %index, 1
  %needed = call i32 @tvm_ios_number(ptr %waits, i32 %index_next)
  %completed = call i32 @tvm_ios_completed(ptr %state, i32 %other)
  %enough = icmp uge i32 %completed, %needed
  br i1 %enough, label %reached, label %no
reached:
  %i_next = add i32 %i, 1
  br label %wait
barrier:
  %row = call i32 @tvm_ios_number(ptr %part, i32 4)
  %free = icmp slt i32 %row, 0
  br i1 %free, label %yes, label %meet
meet:
  %columns = call i32 @tvm_ios_number(ptr %program, i32 1)
  %barriers = call ptr @tvm_ios_table(ptr %program, i32 4)
  %first = mul i32 %row, %columns
  br label %column
column:
  %c = phi i32 [0, %meet], [%c_next, %met]
  %more = icmp slt i32 %c, %columns
  br i1 %more, label %check, label %yes
check:
  %place = add i32 %first, %c
  %due = call i32 @tvm_ios_number(ptr %barriers, i32 %place)
  %done = call i32 @tvm_ios_completed(ptr %state, i32 %c)
  %passed = icmp uge i32 %done, %due
  br i1 %passed, label %met, label %no
met:
  %c_next = add i32 %c, 1
  br label %column
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal i64 @tvm_ios_nanoseconds() {{
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 {clock}, ptr %time)
  %seconds = load i64, ptr %time
  %place = getelementptr i64, ptr %time, i32 1
  %rest = load i64, ptr %place
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}}

; Call the function of units ``first`` to ``last`` once, and record it. Return what it returns.
define internal i32 @tvm_ios_call(ptr %program, ptr %arguments, i32 %first, i32 %last, i32 %home) {{
entry:
  %units = call ptr @tvm_ios_table(ptr %program, i32 2)
  %unit = getelementptr %Unit, ptr %units, i32 %first
  %unit_last = getelementptr %Unit, ptr %units, i32 %last
  %number = call i32 @tvm_ios_number(ptr %unit, i32 0)
  %begin = call i32 @tvm_ios_number(ptr %unit, i32 1)
  %end = call i32 @tvm_ios_number(ptr %unit_last, i32 2)
  %ahead = call i32 @tvm_ios_number(ptr %unit_last, i32 3)
  %functions = call ptr @tvm_ios_table(ptr %program, i32 5)
  %place = getelementptr ptr, ptr %functions, i32 %number
  %function = load ptr, ptr %place
  %record = call i32 @tvm_ios_number(ptr %program, i32 2)
  %silent = icmp slt i32 %record, 0
  br i1 %silent, label %plain, label %recorded
plain:
  %result = call i32 %function(ptr %arguments, i32 %begin, i32 %end, i32 %ahead)
  ret i32 %result
recorded:
  %log_place = getelementptr ptr, ptr %arguments, i32 %record
  %log = load ptr, ptr %log_place
  %thread = zext i32 %home to i64
  %before = call i64 @tvm_ios_nanoseconds()
  %answer = call i32 %function(ptr %arguments, i32 %begin, i32 %end, i32 %ahead)
  %after = call i64 @tvm_ios_nanoseconds()
  br label %note
note:
  %n = phi i32 [%first, %recorded], [%n_next, %note]
  %is_first = icmp eq i32 %n, %first
  %noted = select i1 %is_first, i64 %before, i64 0
  %entry_begin = getelementptr %Record, ptr %log, i32 %n, i32 0
  %entry_end = getelementptr %Record, ptr %log, i32 %n, i32 1
  %entry_thread = getelementptr %Record, ptr %log, i32 %n, i32 2
  store i64 %noted, ptr %entry_begin
  store i64 %after, ptr %entry_end
  store i64 %thread, ptr %entry_thread
  %n_next = add i32 %n, 1
  %done = icmp sgt i32 %n_next, %last
  br i1 %done, label %end_note, label %note
end_note:
  ret i32 %answer
}}

; Run ``count`` units of a part from ``begin`` on, unless a call has failed.
define internal void @tvm_ios_run(ptr %program, ptr %arguments, ptr %state, ptr %part, i32 %begin,
                                  i32 %count, i32 %home) {{
entry:
  %error_place = call ptr @tvm_ios_error(ptr %program, ptr %state)
  %failed = load atomic i32, ptr %error_place monotonic, align 4
  %sound = icmp eq i32 %failed, 0
  %base = call i32 @tvm_ios_number(ptr %part, i32 0)
  %first = add i32 %base, %begin
  %end = add i32 %first, %count
  %chain = call i32 @tvm_ios_number(ptr %part, i32 5)
  %chained = icmp ne i32 %chain, 0
  %step = select i1 %chained, i32 1, i32 %count
  br i1 %sound, label %next, label %done
next:
  %unit = phi i32 [%first, %entry], [%following, %further]
  %following = add i32 %unit, %step
  %last = sub i32 %following, 1
  %error = call i32 @tvm_ios_call(ptr %program, ptr %arguments, i32 %unit, i32 %last, i32 %home)
  %fine = icmp eq i32 %error, 0
  br i1 %fine, label %further, label %fail
fail:
  store atomic i32 1, ptr %error_place monotonic, align 4
  br label %further
further:
  %more = icmp slt i32 %following, %end
  br i1 %more, label %next, label %done
done:
  ret void
}}

; Claim units of a column's current part and run them. Return whether there were any.
define internal i1 @tvm_ios_run_some(ptr %program, ptr %arguments, ptr %state, i32 %column,
                                     i32 %home) {{
entry:
  %place = call ptr @tvm_ios_word(ptr %state, i32 %column)
  %word = load atomic i64, ptr %place acquire, align 8
  %high = lshr i64 %word, 32
  %current = trunc i64 %high to i32
  %num_parts = call i32 @tvm_ios_num_parts(ptr %program, i32 %column)
  %over = icmp sge i32 %current, %num_parts
  br i1 %over, label %no, label %look
look:
  %part = call ptr @tvm_ios_part(ptr %program, i32 %column, i32 %current)
  %low = trunc i64 %word to i32
  %next = lshr i32 %low, 16
  %num_units = call i32 @tvm_ios_number(ptr %part, i32 1)
  %left = sub i32 %num_units, %next
  %claimed = icmp eq i32 %left, 0
  br i1 %claimed, label %no, label %some
some:
  ; Who claimed the first units has seen that the part may begin.
  %begun = icmp ne i32 %next, 0
  br i1 %begun, label %claim, label %fresh
fresh:
  %may = call i1 @tvm_ios_ready(ptr %program, ptr %state, ptr %part)
  br i1 %may, label %claim, label %no
claim:
  %up = add i32 %left, 1
  %half = lshr i32 %up, 1
  %chain = call i32 @tvm_ios_number(ptr %part, i32 5)
  %whole = icmp ne i32 %chain, 0
  %count = select i1 %whole, i32 %left, i32 %half
  %count_wide = zext i32 %count to i64
  %added = shl i64 %count_wide, 16
  %claimed_word = add i64 %word, %added
  %pair = cmpxchg ptr %place, i64 %word, i64 %claimed_word acq_rel monotonic
  %won = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %won, label %run, label %yes
run:
  call void @tvm_ios_run(ptr %program, ptr %arguments, ptr %state, ptr %part, i32 %next, i32 %count,
                         i32 %home)
  %before = atomicrmw add ptr %place, i64 %count_wide acq_rel
  %before_low = trunc i64 %before to i32
  %before_done = and i32 %before_low, 65535
  %done = add i32 %before_done, %count
  %last = icmp eq i32 %done, %num_units
  br i1 %last, label %advance, label %yes
advance:
  %following = add i32 %current, 1
  %following_wide = zext i32 %following to i64
  %new_word = shl i64 %following_wide, 32
  store atomic i64 %new_word, ptr %place release, align 8
  %finished = icmp eq i32 %following, %num_parts
  br i1 %finished, label %finish, label %yes
finish:
  %unfinished = call ptr @tvm_ios_unfinished(ptr %program, ptr %state)
  atomicrmw sub ptr %unfinished, i32 1 acq_rel
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}

; Run units of the column that is furthest behind: of those from ``first`` on, but not of ``home``.
define internal i1 @tvm_ios_steal(ptr %program, ptr %arguments, ptr %state, i32 %home,
                                  i32 %first) {{
entry:
  %columns = call i32 @tvm_ios_number(ptr %program, i32 1)
  br label %column
column:
  %c = phi i32 [%first, %entry], [%c_next, %skip]
  %found = phi i32 [-1, %entry], [%found_next, %skip]
  %least = phi i32 [-1, %entry], [%least_next, %skip]
  %more = icmp slt i32 %c, %columns
  br i1 %more, label %look, label %end
look:
  %own = icmp eq i32 %c, %home
  br i1 %own, label %skip, label %other
other:
  %place = call ptr @tvm_ios_word(ptr %state, i32 %c)
  %word = load atomic i64, ptr %place acquire, align 8
  %high = lshr i64 %word, 32
  %current = trunc i64 %high to i32
  %num_parts = call i32 @tvm_ios_num_parts(ptr %program, i32 %c)
  %open = icmp slt i32 %current, %num_parts
  %behind = icmp ult i32 %current, %least
  %candidate = and i1 %open, %behind
  br i1 %candidate, label %part, label %skip
part:
  %its = call ptr @tvm_ios_part(ptr %program, i32 %c, i32 %current)
  %low = trunc i64 %word to i32
  %next = lshr i32 %low, 16
  %num_units = call i32 @tvm_ios_number(ptr %its, i32 1)
  %some = icmp slt i32 %next, %num_units
  br i1 %some, label %unclaimed, label %skip
unclaimed:
  %begun = icmp ne i32 %next, 0
  br i1 %begun, label %take, label %fresh
fresh:
  %may = call i1 @tvm_ios_ready(ptr %program, ptr %state, ptr %its)
  br i1 %may, label %take, label %skip
take:
  br label %skip
skip:
  %found_next = phi i32 [%found, %look], [%found, %other], [%found, %part], [%found, %fresh],
                        [%c, %take]
  %least_next = phi i32 [%least, %look], [%least, %other], [%least, %part], [%least, %fresh],
                        [%current, %take]
  %c_next = add i32 %c, 1
  br label %column
end:
  %none = icmp slt i32 %found, 0
  br i1 %none, label %no, label %run
run:
  %result = call i1 @tvm_ios_run_some(ptr %program, ptr %arguments, ptr %state, i32 %found,
                                      i32 %home)
  ret i1 %result
no:
  ret i1 false
}}

; Claim and run units until all of the launch are completed. Columns from ``threads`` on have no
; thread that is at home there.
define internal void @tvm_ios_work(ptr %program, ptr %arguments, ptr %state, i32 %home,
                                   i32 %threads) {{
entry:
  %unfinished = call ptr @tvm_ios_unfinished(ptr %program, ptr %state)
  br label %loop
loop:
  %looks = phi i32 [0, %entry], [0, %own], [0, %steal], [%looks_next, %wait], [0, %yield]
  %left = load atomic i32, ptr %unfinished acquire, align 4
  %over = icmp eq i32 %left, 0
  br i1 %over, label %done, label %own
own:
  %ran = call i1 @tvm_ios_run_some(ptr %program, ptr %arguments, ptr %state, i32 %home, i32 %home)
  br i1 %ran, label %loop, label %steal
steal:
  %patient = icmp ult i32 %looks, {patience}
  %first = select i1 %patient, i32 %threads, i32 0
  %stole = call i1 @tvm_ios_steal(ptr %program, ptr %arguments, ptr %state, i32 %home, i32 %first)
  br i1 %stole, label %loop, label %idle
idle:
  call void asm sideeffect "{pause}", "~{{memory}}"()
  %looks_next = add i32 %looks, 1
  %long = icmp uge i32 %looks_next, {looks}
  br i1 %long, label %yield, label %wait
wait:
  br label %loop
yield:
  call i32 @sched_yield()
  br label %loop
done:
  ret void
}}

; Prepare the state of a launch on TVM's pool.
define internal void @tvm_ios_begin(ptr %program, ptr %state) {{
entry:
  %columns = call i32 @tvm_ios_number(ptr %program, i32 1)
  br label %column
column:
  %c = phi i32 [0, %entry], [%c_next, %clear]
  %count = phi i32 [0, %entry], [%count_next, %clear]
  %more = icmp slt i32 %c, %columns
  br i1 %more, label %clear, label %end
clear:
  %place = call ptr @tvm_ios_word(ptr %state, i32 %c)
  store i64 0, ptr %place
  %num_parts = call i32 @tvm_ios_num_parts(ptr %program, i32 %c)
  %some = icmp ne i32 %num_parts, 0
  %one = zext i1 %some to i32
  %count_next = add i32 %count, %one
  %c_next = add i32 %c, 1
  br label %column
end:
  %unfinished = call ptr @tvm_ios_unfinished(ptr %program, ptr %state)
  store i32 %count, ptr %unfinished
  %error = call ptr @tvm_ios_error(ptr %program, ptr %state)
  store i32 0, ptr %error
  ret void
}}

; Run the units of the only column in order. Return 0, or 1 if one has failed.
define internal i32 @tvm_ios_sequence(ptr %program, ptr %arguments, i32 %count) {{
entry:
  br label %unit
unit:
  %i = phi i32 [0, %entry], [%i_next, %run]
  %more = icmp slt i32 %i, %count
  br i1 %more, label %run, label %fine
run:
  %error = call i32 @tvm_ios_call(ptr %program, ptr %arguments, i32 %i, i32 %i, i32 0)
  %i_next = add i32 %i, 1
  %sound = icmp eq i32 %error, 0
  br i1 %sound, label %unit, label %failed
fine:
  ret i32 0
failed:
  ret i32 1
}}
"""
