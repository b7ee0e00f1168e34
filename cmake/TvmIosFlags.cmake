# SPDX-License-Identifier: Apache-2.0
# What every target of the project is compiled with.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

if(TVM_IOS_SANITIZE STREQUAL "address")
  # Without vptr: what TVM FFI's classes look like is known to each library apart.
  set(TVM_IOS_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize=vptr
    -fno-sanitize-recover=undefined)
elseif(TVM_IOS_SANITIZE STREQUAL "thread")
  set(TVM_IOS_SANITIZE_FLAGS -fsanitize=thread)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC warns that it does not follow the fences in TVM FFI's reference counts.
    list(APPEND TVM_IOS_SANITIZE_FLAGS -Wno-tsan)
  endif()
elseif(TVM_IOS_SANITIZE)
  message(FATAL_ERROR "TVM_IOS_SANITIZE is '${TVM_IOS_SANITIZE}': use address or thread")
endif()
if(TVM_IOS_SANITIZE)
  # -O1 and lines only, after the build type's own: more takes minutes to compile, and finds no more.
  add_compile_options(${TVM_IOS_SANITIZE_FLAGS} -O1 -fno-omit-frame-pointer -g1)
  add_link_options(${TVM_IOS_SANITIZE_FLAGS})
endif()

function(tvm_ios_set_flags target)
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
endfunction()
