# SPDX-License-Identifier: Apache-2.0
# Compiles into a target a digest of the sources that run and time stages, by which measured
# latencies are told from those of other code. It needs Python, which FindTvmFfi has found.

function(tvm_ios_add_source_digest target)
  set(src "${CMAKE_CURRENT_SOURCE_DIR}/src")
  set(script "${CMAKE_CURRENT_SOURCE_DIR}/cmake/source_digest.py")
  set(output "${CMAKE_CURRENT_BINARY_DIR}/source_digest.cc")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${src}/*.cc" "${src}/*.h")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${Python_EXECUTABLE}" "${script}" "${src}" "${output}"
      "$<CONFIG>" "sanitize=${TVM_IOS_SANITIZE}"
    DEPENDS "${script}" ${sources}
    COMMENT "Digesting the sources of the runtime"
    VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction()
