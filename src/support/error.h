// SPDX-License-Identifier: Apache-2.0
/*!
 * \file error.h
 * \brief What the core throws when its user is wrong. Each class has its namesake in Python.
 */
#ifndef TVM_IOS_SUPPORT_ERROR_H_
#define TVM_IOS_SUPPORT_ERROR_H_

#include <stdexcept>
#include <string>

namespace tvm_ios {

/*! \brief The base of the core's exceptions; the message says what to do. */
class Error : public std::runtime_error {
 public:
  /*! \brief Name of the Python exception that this one becomes. */
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

/*! \brief The cost function answered with something that is not a latency. */
class CostError : public Error {
 public:
  explicit CostError(const std::string& message) : Error("tvm_ios.CostError", message) {}
};

/*! \brief An option out of its range. */
class OptionError : public Error {
 public:
  explicit OptionError(const std::string& message) : Error("tvm_ios.OptionError", message) {}
};

/*! \brief A device that is not there, or that cannot do what is asked. */
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error("tvm_ios.DeviceError", message) {}

 protected:
  using Error::Error;
};

/*! \brief A kernel that a device's library does not have; others compute the same. */
class UnsupportedError : public DeviceError {
 public:
  explicit UnsupportedError(const std::string& message)
      : DeviceError("tvm_ios.UnsupportedError", message) {}
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SUPPORT_ERROR_H_
