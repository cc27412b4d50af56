"""What several pages need: amounts, charts, links and rows."""
