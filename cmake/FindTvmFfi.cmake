# SPDX-License-Identifier: Apache-2.0
# Finds the headers and the library that the Python package apache-tvm-ffi brings along.
# Python without a version suffix: that is what tells scikit-build-core's interpreter from others.

find_package(Python COMPONENTS Interpreter REQUIRED)
if(NOT tvm_ffi_ROOT AND NOT tvm_ffi_DIR)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -m tvm_ffi.config --cmakedir
    OUTPUT_VARIABLE tvm_ffi_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
endif()
find_package(tvm_ffi CONFIG REQUIRED)
