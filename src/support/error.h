// SPDX-License-Identifier: Apache-2.0
/*!
 * \file error.h
 * \brief The exceptions of the core for user errors; each has a Python class of the same name.
 */
#ifndef TVM_IOS_SUPPORT_ERROR_H_
#define TVM_IOS_SUPPORT_ERROR_H_

#include <stdexcept>
#include <string>

namespace tvm_ios {

/*! \brief The base of the core's exceptions; the message says what to do. */
class Error : public std::runtime_error {
 public:
  /*! \brief The name of the corresponding Python exception. */
  const char* kind() const { return kind_; }

 protected:
  Error(const char* kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}

 private:
  const char* kind_;
};

/*! \brief A graph, or a set of its operators, that cannot be scheduled. */
class GraphError : public Error {
 public:
  explicit GraphError(const std::string& message) : Error("tvm_ios.GraphError", message) {}
};

/*! \brief No schedule exists. */
class ScheduleError : public Error {
 public:
  explicit ScheduleError(const std::string& message) : Error("tvm_ios.ScheduleError", message) {}
};

/*! \brief A cost function returned a value that is not a latency. */
class CostError : public Error {
 public:
  explicit CostError(const std::string& message) : Error("tvm_ios.CostError", message) {}
};

/*! \brief An option is out of range. */
class OptionError : public Error {
 public:
  explicit OptionError(const std::string& message) : Error("tvm_ios.OptionError", message) {}
};

/*! \brief A device does not exist or does not support the request. */
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error("tvm_ios.DeviceError", message) {}

 protected:
  using Error::Error;
};

/*! \brief A device's library does not support a kernel; other kernels compute the same. */
class UnsupportedError : public DeviceError {
 public:
  explicit UnsupportedError(const std::string& message)
      : DeviceError("tvm_ios.UnsupportedError", message) {}
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SUPPORT_ERROR_H_
