/* SPDX-License-Identifier: MIT */
/* A transposing copy through local memory. in0 is contiguous along the rows of the space's last two
 * dimensions, out0 along the columns. A tile is read along the rows and written along the columns,
 * so that neighbouring items always access neighbouring elements. A column of padding keeps their
 * accesses to the tile in different banks.
 *
 * Configured by TILE_ROWS x TILE_COLUMNS, the items of a group GROUP_X x GROUP_Y, the matrix's ROWS
 * and COLUMNS, the strides IN_COLUMN and OUT_ROW, and PUT(at, i): out0[at] = tile[i], converted.
 * TILE_TYPE is the type of the tile's elements; an item reads TRANSPOSE_DOWN x TRANSPOSE_ACROSS of
 * them. row0 and column0 are the tile's first row and column; from and to are the matrix's
 * offsets. */
//@ copy_transpose
const INDEX x0 = (INDEX)LOCAL_ID_X, y0 = (INDEX)LOCAL_ID_Y;
{
  TILE_TYPE held[TRANSPOSE_DOWN][TRANSPOSE_ACROSS]; /* all loads are pending before the first
                                                     * wait */
  UNROLL for (int j = 0; j < TRANSPOSE_DOWN; j++) {
    UNROLL for (int i = 0; i < TRANSPOSE_ACROSS; i++) {
      const INDEX x = x0 + i * GROUP_X, y = y0 + j * GROUP_Y;
      if (x < TILE_ROWS && y < TILE_COLUMNS && row0 + x < ROWS && column0 + y < COLUMNS)
        held[j][i] = in0[from + row0 + x + (column0 + y) * IN_COLUMN];
    }
  }
  UNROLL for (int j = 0; j < TRANSPOSE_DOWN; j++) {
    UNROLL for (int i = 0; i < TRANSPOSE_ACROSS; i++) {
      const INDEX x = x0 + i * GROUP_X, y = y0 + j * GROUP_Y;
      if (x < TILE_ROWS && y < TILE_COLUMNS && row0 + x < ROWS && column0 + y < COLUMNS)
        tile[y * (TILE_ROWS + 1) + x] = held[j][i];
    }
  }
}
BARRIER();
for (INDEX y = y0; y < TILE_ROWS; y += GROUP_Y) {
  for (INDEX x = x0; x < TILE_COLUMNS; x += GROUP_X) {
    if (row0 + y < ROWS && column0 + x < COLUMNS) {
      PUT(to + (row0 + y) * OUT_ROW + column0 + x, x * (TILE_ROWS + 1) + y);
    }
  }
}
