"""What is this table, and what is wrong with it?"""
