// SPDX-License-Identifier: Apache-2.0
/*!
 * \file order.h
 * \brief The order of what CUDA promises no order of.
 */
#ifndef TVM_IOS_TESTS_CUDA_ORDER_H_
#define TVM_IOS_TESTS_CUDA_ORDER_H_

#include <cstddef>
#include <random>
#include <vector>

namespace fake_driver {

/*!
 * \brief As TVM_IOS_FAKE_DRIVER_ORDER says when this is made: "reverse", or the seed of a random
 * order.
 *
 * Without it, or with "issued", things come in the order in which they were issued or are numbered.
 */
class Order {
 public:
  Order();
  /*! \brief Whether it is that in which things were issued. */
  bool IsOfIssue() const { return kind_ == Kind::kIssued; }
  /*! \brief The numbers below the count, each once. */
  std::vector<unsigned> Of(unsigned count);
  /*! \brief Which of so many, the one that was issued first being 0. */
  size_t Choose(size_t count);

 private:
  enum class Kind { kIssued, kReverse, kRandom } kind_;
  std::mt19937 random_;
};

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_ORDER_H_
