"""What every method needs: dispatch, paths, pages, filters and field masks."""
