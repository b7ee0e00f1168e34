// SPDX-License-Identifier: Apache-2.0
/*!
 * \file stage_tables.h
 * \brief The tables of stages that are composed at run time, of which ClaimProgram is a view.
 */
#ifndef TVM_IOS_RUNTIME_STAGE_TABLES_H_
#define TVM_IOS_RUNTIME_STAGE_TABLES_H_

#include <cstdint>
#include <vector>

#include "runtime/launch/program.h"

namespace tvm_ios {

/*! \brief Tables to which parts are added in the order in which they are computed. */
class StageTables {
 public:
  explicit StageTables(int64_t num_columns) : columns_(num_columns) {}
  StageTables(const StageTables&) = delete;
  StageTables& operator=(const StageTables&) = delete;

  /*! \brief Let the units that follow be parts of their own. */
  void BeginShare() { ++share_; }

  /*!
   * \brief Add tiles of a share to a column.
   *
   * What a column computes of a share by several calls of this is a chain.
   *
   * \param ahead Passed to the function.
   * \param num_units At most so many, at least one.
   */
  void Add(int64_t column, int32_t function, int32_t begin, int32_t end, int32_t ahead,
           int32_t num_units);

  /*! \brief Let what follows wait for all that has been added. */
  void AddBarrier();

  /*! \brief Add a unit to each column, whose tile is the number of the column. */
  void AddToEach(int32_t function);

  /*! \brief Add a unit, which waits for all that has been added and for which the rest waits. */
  void AddMark(int32_t function, int32_t ahead);

  /*! \brief Return the program; nothing is added afterwards. It ends with this object. */
  const ClaimProgram* Finish(const std::vector<ClaimProgram::Function>& functions);

 private:
  struct OpenPart {
    int64_t share;
    int32_t barrier;
    bool chain;
    std::vector<Unit> units;
  };
  struct Column {
    std::vector<OpenPart> parts;
    int32_t passed{-1};  // the last barrier that its parts wait for
  };

  std::vector<Column> columns_;
  int64_t share_{0};
  int32_t last_barrier_{-1};
  std::vector<int32_t> barriers_;
  std::vector<int32_t> first_part_;
  std::vector<Part> parts_;
  std::vector<Unit> units_;
  std::vector<ClaimProgram::Function> functions_;
  ClaimProgram program_{};
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_STAGE_TABLES_H_
