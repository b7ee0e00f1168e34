# SPDX-License-Identifier: Apache-2.0
# Makes GTest::gtest_main: from an installed package, from installed sources (Debian: googletest),
# or, where apt-get is, from that package's sources, unpacked into the build. This needs no root.

# Sets `sources` to where the package's sources are unpacked, and to nothing where they cannot be had.
function(tvm_ios_unpack_googletest sources)
  set(${sources} "" PARENT_SCOPE)
  set(directory "${CMAKE_BINARY_DIR}/googletest-package")
  set(unpacked "${directory}/usr/src/googletest")
  find_program(APT_GET apt-get)
  find_program(DPKG_DEB dpkg-deb)
  if(NOT EXISTS "${unpacked}/CMakeLists.txt" AND APT_GET AND DPKG_DEB)
    message(STATUS "GoogleTest is not installed: downloading the package googletest")
    # Lists of its own: the system's may be missing, and are root's.
    set(apt ${APT_GET} -q -o "Dir::State::lists=${directory}/lists" -o "Dir::Cache=${directory}/cache"
      -o APT::Sandbox::User=)
    file(MAKE_DIRECTORY "${directory}/lists/partial" "${directory}/cache/archives/partial")
    execute_process(COMMAND ${apt} update WORKING_DIRECTORY "${directory}")
    execute_process(COMMAND ${apt} download googletest WORKING_DIRECTORY "${directory}")
    file(GLOB package "${directory}/googletest_*.deb")
    execute_process(COMMAND ${DPKG_DEB} --extract "${package}" "${directory}")
  endif()
  if(EXISTS "${unpacked}/CMakeLists.txt")
    set(${sources} "${unpacked}" PARENT_SCOPE)
  endif()
endfunction()

find_package(GTest CONFIG QUIET)
if(NOT GTest_FOUND)
  set(TVM_IOS_GOOGLETEST_SOURCES /usr/src/googletest)
  if(NOT EXISTS "${TVM_IOS_GOOGLETEST_SOURCES}/CMakeLists.txt")
    tvm_ios_unpack_googletest(TVM_IOS_GOOGLETEST_SOURCES)
  endif()
  if(NOT TVM_IOS_GOOGLETEST_SOURCES)
    message(FATAL_ERROR
      "TVM_IOS_BUILD_TESTS needs GoogleTest, which is neither installed nor to be had from apt-get: "
      "install it (Fedora: gtest-devel), or set GTest_ROOT to where it is")
  endif()
  set(INSTALL_GTEST OFF)
  set(BUILD_GMOCK OFF)
  add_subdirectory("${TVM_IOS_GOOGLETEST_SOURCES}" "${CMAKE_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL)
  if(NOT TARGET GTest::gtest_main)
    add_library(GTest::gtest_main ALIAS gtest_main)
  endif()
endif()
